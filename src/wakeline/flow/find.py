"""What rows of the log mean to subscriptions: events in the shape that goes out, and holds that may have ended.

Pure: the rows and the subscriptions were read by the caller.  Nobody is woken by what they did themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from wakeline.core import event
from wakeline.core.instant import SECOND, from_datetime
from wakeline.core.log import LogEntry
from wakeline.core.message import EVERYONE, ROLE_PREFIX
from wakeline.core.row_data import GrantAdded, Misfit, NoticeAssigned, Pulsed, TaskStateChanged, read_row
from wakeline.core.subscription import EventFacts, Filters, Subscription, Trigger, matches, parse_filters
from wakeline.core.wake_queries import MatchedMessage
from wakeline.core.waking import WakeRules
from wakeline.flow.match import Found

_encode = msgspec.json.Encoder().encode
_words = msgspec.json.Decoder(list[str]).decode

# Rows that may end a hold: whatever their owner has open is planned again.
ENDS_HOLDS = frozenset({"session.started", "session.changed", "session.ended", "agent.changed"})


class Occurrence(msgspec.Struct, frozen=True):
    """An event that is no message: who it is for, and what it says."""

    log_id: int
    trigger: Trigger
    event_type: str
    receivers: tuple[str, ...]
    actor: str
    payload: dict[str, Any]
    occurred_at: int


def find_messages(rows: Iterable[MatchedMessage]) -> list[Found]:
    found = {}
    for row in rows:
        if matches(_filters(row.filters), _facts(row)):
            found[row.subscription_id, row.log_id] = to_found(row)
    return list(found.values())


def cannot_ring(row: MatchedMessage, rules: WakeRules, now: int) -> bool:
    """Inside its window, or with a delivery under way: its wakes only gather."""
    seconds = rules.coalesce_seconds if row.coalesce_window is None else row.coalesce_window
    return bool(row.ringing) or (row.rung_at is not None and now < row.rung_at + seconds * SECOND)


@lru_cache(maxsize=4096)
def _filters(text: str) -> Filters:
    return parse_filters(text)


def _facts(row: MatchedMessage) -> EventFacts:
    replies = [row.thread_id] if row.in_reply_to is None else [row.in_reply_to, row.thread_id]
    return EventFacts(row.sender, row.priority, _words(row.tags), replies)


def to_found(row: MatchedMessage) -> Found:
    addresses = _words(row.recipients)
    session_id = _addressed(addresses, row.handle)
    return Found(
        subscription_id=row.subscription_id,
        log_id=row.log_id,
        handle=row.handle,
        event_type=event.SENT_TO_ME,
        policy=row.wake_policy,
        payload=_encode(payload_of(row, addresses)).decode(),
        occurred_at=row.created_at,
        session_id=session_id or row.session_id,
        addressed=session_id is not None,
        message_id=row.message_id,
        thread_id=row.thread_id,
        seq=row.seq,
    )


def payload_of(row: MatchedMessage, addresses: Sequence[str]) -> dict[str, Any]:
    wide = any(address == EVERYONE or address.startswith(ROLE_PREFIX) for address in addresses)
    return event.sent_to_me(
        row.message_id, row.sender, row.subject, row.priority, _words(row.tags), row.in_reply_to, wide=wide
    )


def _addressed(addresses: Sequence[str], handle: str) -> str | None:
    prefix = f"{handle}/"
    return next((address.removeprefix(prefix) for address in addresses if address.startswith(prefix)), None)


def occurrence(row: LogEntry) -> Occurrence | Misfit | None:
    """What this row is to those who ask for events that are no messages."""
    said = read_row(row)
    match said:
        case GrantAdded():
            at = event.moment(row.created_at)
            payload: dict[str, Any] = {"scope": said.scope, "grantedBy": said.owner, "grantedAt": at}
            return _occurrence(row, Trigger.PERMISSION_GRANTED, event.PERMISSION_GRANTED, [said.grantee], payload)
        case TaskStateChanged():
            return _task_changed(row, said)
        case Pulsed():
            payload = {"unread": said.unread, "pulsedAt": event.moment(row.created_at)}
            return _occurrence(row, Trigger.HEARTBEAT_PULSE, event.HEARTBEAT_PULSE, [str(row.subject)], payload)
        case NoticeAssigned():
            return _assigned(row, said)
        case Misfit():
            return said
        case _:
            return None


def _task_changed(row: LogEntry, said: TaskStateChanged) -> Occurrence:
    payload = {
        "taskId": said.task_id,
        "previousState": event.state_name(said.previous_state),
        "newState": event.state_name(said.new_state),
        "originator": said.originator,
        "assignee": said.assignee,
        "lastModifiedAt": event.moment(row.created_at),
    }
    receivers = [said.originator] if said.assignee is None else [said.originator, said.assignee]
    return _occurrence(row, Trigger.TASK_STATE_CHANGED, event.TASK_STATE_CHANGED, receivers, payload)


def _assigned(row: LogEntry, said: NoticeAssigned) -> Occurrence:
    payload = {
        "noticeId": said.notice_id,
        "title": said.title[: event.SUBJECT_SHOWN],
        "target": said.target,
        "handler": said.handler,
        "deadline": None if said.deadline is None else event.moment(from_datetime(said.deadline)),
    }
    return _occurrence(row, Trigger.NOTICE_ASSIGNED, event.NOTICE_ASSIGNED, [said.assignee], payload)


def _occurrence(
    row: LogEntry, trigger: Trigger, event_type: str, receivers: Sequence[str], payload: dict[str, Any]
) -> Occurrence:
    others = tuple(dict.fromkeys(handle for handle in receivers if handle != row.actor))
    return Occurrence(row.log_id, trigger, event_type, others, row.actor, payload, row.created_at)


def find_occurrence(what: Occurrence, handle: str, subscriptions: Iterable[Subscription]) -> list[Found]:
    facts = EventFacts(what.actor)
    return [
        Found(
            subscription_id=subscription.subscription_id,
            log_id=what.log_id,
            handle=handle,
            event_type=what.event_type,
            policy=None,
            payload=_encode(what.payload).decode(),
            occurred_at=what.occurred_at,
        )
        for subscription in subscriptions
        if what.log_id > subscription.from_log_id and matches(_filters(subscription.filters), facts)
    ]
