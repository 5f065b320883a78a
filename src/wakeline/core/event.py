"""What a wake says: one event in the seed's shape, or a digest of several.  Never a body, never an instruction.

Whatever a peer wrote (a subject, a scope, an id) is quoted, cut and stripped of everything that could end its line:
the text around it is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from wakeline.core.doorbell import tame
from wakeline.core.instant import to_datetime
from wakeline.core.wake import Wake

SCHEMA_VERSION = "1.0"
SENT_TO_ME = "wake/sent_to_me"
TASK_STATE_CHANGED = "wake/task_state_changed"
PERMISSION_GRANTED = "wake/permission_granted"
HEARTBEAT_PULSE = "wake/heartbeat_pulse"
NOTICE_ASSIGNED = "wake/notice_assigned"
DIGEST = "wake/digest"

SUBJECT_SHOWN = 200

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode

# Event type → one, several, and how the latest of them reads.
_WORDS: dict[str, tuple[str, str, str]] = {
    SENT_TO_ME: ("new message", "new messages", '"{subject}" from {from}'),
    TASK_STATE_CHANGED: (
        "task transition",
        "task transitions",
        "{previousState} → {newState} on task {taskId}",
    ),
    PERMISSION_GRANTED: ("permission granted", "permissions granted", "{scope} by {grantedBy}"),
    HEARTBEAT_PULSE: ("heartbeat", "heartbeats", "{unread} unread"),
    NOTICE_ASSIGNED: ("notice assigned", "notices assigned", '"{title}"'),
}


EVENTS = (*_WORDS, DIGEST)


def event_type_of(trigger: str) -> str:
    return f"wake/{trigger.lower()}"


def told_of(said: Mapping[str, Any]) -> tuple[str, ...]:
    """The event types that one event speaks of: its own, and of a digest also those of its parts."""
    event_type = str(said.get("eventType"))
    parts = said["payload"].get("breakdown", {}) if event_type == DIGEST else {}
    return (event_type, *(f"wake/{name}" for name in parts))


def sent_to_me(
    message_id: str,
    sender: str,
    subject: str | None,
    priority: str,
    tags: list[str],
    reply_to: str | None,
    *,
    wide: bool,
) -> dict[str, Any]:
    return {
        "messageId": message_id,
        "from": sender,
        "subject": (subject or "")[:SUBJECT_SHOWN],
        "priority": priority,
        "taggedConcepts": tags,
        "isReplyTo": reply_to,
        "isBroadcast": wide,
    }


class Group(msgspec.Struct, frozen=True):
    """Events of one type: how many, and what the latest of them says."""

    event_type: str
    count: int
    latest: str  # JSON


class Content(msgspec.Struct, frozen=True):
    """What one delivery speaks of."""

    groups: tuple[Group, ...]
    log_id: int  # the highest
    since: int  # when the oldest happened

    @property
    def events(self) -> int:
        return sum(group.count for group in self.groups)


def content_of(wakes: Sequence[Wake]) -> Content:
    """Of at least one wake, in the order of the log."""
    groups: dict[str, Group] = {}
    for wake in wakes:
        before = groups.get(wake.event_type)
        count = 1 if before is None else before.count + 1
        groups[wake.event_type] = Group(wake.event_type, count, wake.payload)
    return Content(tuple(groups.values()), wakes[-1].log_id, min(wake.occurred_at for wake in wakes))


def encode_event(event_id: str, subscription_id: str, handle: str, content: Content, now: int) -> tuple[str, str]:
    """The event type and the exact text that goes out, on every attempt the same."""
    payload: msgspec.Raw | dict[str, Any]
    if content.events == 1:
        event_type, payload = content.groups[0].event_type, msgspec.Raw(content.groups[0].latest.encode())
    else:
        event_type, payload = DIGEST, _digest(subscription_id, handle, content, now)
    body = {
        "schemaVersion": SCHEMA_VERSION,
        "eventType": event_type,
        "eventId": event_id,
        "logId": content.log_id,
        "agentIdentity": handle,
        "subscriptionId": subscription_id,
        "payload": payload,
        "emittedAt": moment(now),
    }
    return event_type, _encode(body).decode()


def moment(instant: int) -> str:
    return to_datetime(instant).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def state_name(state: str) -> str:
    """A task's state as the wake protocol spells it: `InputRequired`."""
    return "".join(word.capitalize() for word in state.split("_"))


def _digest(subscription_id: str, handle: str, content: Content, now: int) -> dict[str, Any]:
    window = max(0, now - content.since)
    return {
        "totalEvents": content.events,
        "breakdown": {
            group.event_type.removeprefix("wake/"): {"count": group.count, "latest": _decode(group.latest)}
            for group in content.groups
        },
        "windowMs": window // 1_000,
        "text": digest_text(subscription_id, handle, content, window),
    }


def digest_text(subscription_id: str, handle: str, content: Content, window: int) -> str:
    counted = [f"{group.count} {_WORDS[group.event_type][group.count != 1]}" for group in content.groups]
    lines = [f"- {words} (latest: {_latest(group)})" for words, group in zip(counted, content.groups, strict=True)]
    return "\n".join(
        [
            f"[WAKE] {content.events} events for {handle}: {', '.join(counted)}",
            "",
            "Breakdown:",
            *lines,
            "",
            f"Subscription: {subscription_id}",
            f"Window: {timedelta(microseconds=window).total_seconds():.1f} s",
        ]
    )


def describe(body: str) -> str | None:
    """What an event that went out tells beside mail, in words; None: mail is all that it tells of."""
    said = _decode(body)
    payload, event_type = said["payload"], said["eventType"]
    groups = (
        [Group(f"wake/{name}", one["count"], _encode(one["latest"]).decode()) for name, one in _breakdown(payload)]
        if event_type == DIGEST
        else [Group(event_type, 1, _encode(payload).decode())]
    )
    others = [group for group in groups if group.event_type != SENT_TO_ME]
    told = [f"{one.count} {_WORDS[one.event_type][one.count != 1]} (latest: {_latest(one)})" for one in others]
    return ", ".join(told) or None


def _breakdown(payload: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return list(payload["breakdown"].items())


def _latest(group: Group) -> str:
    quoted = {name: tame(str(value)) for name, value in _decode(group.latest).items()}
    return _WORDS[group.event_type][2].format_map(_Blank(quoted))


class _Blank(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?"
