"""Turn rows into what the wire shows."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from wakeline import wire
from wakeline.core import quiet
from wakeline.core.instant import to_datetime
from wakeline.core.message import Message, Receipt
from wakeline.core.principal import HUMAN_ROLE, PARTICIPANT, Kind, Principal
from wakeline.core.queries import Entry
from wakeline.core.records import Block, DeadLetter, Grant, Refusal, Token
from wakeline.core.session import Session
from wakeline.core.thread import Member, Thread
from wakeline.flow.post import Accepted

_list = msgspec.json.Decoder(list[str]).decode
_chain = msgspec.json.Decoder(wire.ChainView).decode
_words = msgspec.json.Decoder(dict[str, str]).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode


def _when(instant: int | None) -> Any:
    return None if instant is None else to_datetime(instant)


def state_of(message: Message, now: int) -> str:
    if message.retracted_at is not None:
        return "retracted"
    if message.superseded_by is not None:
        return "superseded"
    return "expired" if message.expires_at is not None and message.expires_at <= now else "current"


def receipt(row: Receipt) -> wire.ReceiptView:
    return wire.ReceiptView(
        recipient=row.recipient,
        seen_at=_when(row.seen_at),
        read_at=_when(row.read_at),
        archived_at=_when(row.archived_at),
        lapsed=row.lapsed,
    )


def mail(row: Message) -> wire.MailView:
    return wire.MailView(
        message_id=row.message_id,
        thread_id=row.thread_id,
        seq=row.seq,
        log_id=row.log_id,
        sender=row.sender,
        subject=row.subject,
        priority=row.priority,
        created_at=to_datetime(row.created_at),
    )


def message(row: Message, mine: Receipt | None, now: int) -> wire.MessageView:
    """A retracted message keeps its place and loses its text."""
    state: Any = state_of(row, now)
    return wire.MessageView(
        message_id=row.message_id,
        thread_id=row.thread_id,
        seq=row.seq,
        log_id=row.log_id,
        sender=row.sender,
        session_id=row.session_id,
        kind=row.kind,
        subject=None if state == "retracted" else row.subject,
        body="" if state == "retracted" else row.body,
        to=_list(row.recipients),
        priority=row.priority,
        wake_policy=row.wake_policy,
        tags=[] if row.tags == "[]" else _list(row.tags),
        in_reply_to=row.in_reply_to,
        expires_at=_when(row.expires_at),
        supersedes=row.supersedes,
        superseded_by=row.superseded_by,
        retracted_at=_when(row.retracted_at),
        metadata=None if row.metadata is None or state == "retracted" else _object(row.metadata),
        schema_version=row.schema_version,
        created_at=to_datetime(row.created_at),
        state=state,
        receipt=None if mine is None else receipt(mine),
        chain=UNSET if row.chain is None else _chain(row.chain),
        answer_by=UNSET if row.answer_by is None else to_datetime(row.answer_by),
    )


def posted(row: Accepted) -> wire.Posted:
    fired = row.guard
    return wire.Posted(
        message_id=row.message_id,
        thread_id=row.thread_id,
        seq=row.seq,
        log_id=row.log_id,
        created_at=to_datetime(row.created_at),
        epoch=row.epoch,
        guard=UNSET if fired is None else wire.GuardView(code=fired.code, incident_thread_id=fired.incident_thread_id),
    )


def event(entry: Entry, epoch: str, now: int) -> wire.EventView:
    row = entry.log
    return wire.EventView(
        log_id=row.log_id,
        epoch=epoch,
        kind=row.kind,
        stream=row.stream,
        stream_seq=row.stream_seq,
        actor=row.actor,
        subject=row.subject,
        created_at=to_datetime(row.created_at),
        message=UNSET if entry.message is None else message(entry.message, None, now),
        data=UNSET if row.data is None else _object(row.data),
    )


def member(row: Member) -> wire.MemberView:
    return wire.MemberView(
        handle=row.handle,
        joined_at=to_datetime(row.joined_at),
        joined_seq=row.joined_seq,
        last_read_seq=row.last_read_seq,
    )


def thread(row: Thread, members: list[Member] | None = None) -> wire.ThreadView:
    return wire.ThreadView(
        thread_id=row.thread_id,
        type=row.type,
        status=row.status,
        title=row.title,
        created_by=row.created_by,
        coordinator=row.coordinator,
        escalation_owner=row.escalation_owner,
        last_seq=row.last_seq,
        created_at=to_datetime(row.created_at),
        updated_at=to_datetime(row.updated_at),
        closed_at=_when(row.closed_at),
        members=UNSET if members is None else [member(one) for one in members],
    )


def leading_role(row: Principal) -> str:
    """The role a principal acts in when nobody says which."""
    roles = row.roles.split()
    return HUMAN_ROLE if row.kind == Kind.HUMAN else (roles[0] if roles else PARTICIPANT)


def agent(row: Principal, unread: int | UnsetType = UNSET) -> wire.AgentView:
    return wire.AgentView(
        handle=row.handle,
        kind=row.kind,
        role=leading_role(row),
        roles=row.roles.split(),
        display_name=row.display_name,
        created_at=to_datetime(row.created_at),
        retired_at=_when(row.retired_at),
        unread=unread,
        quiet_hours=quiet.parse(row.quiet),
        do_not_disturb_until=_when(row.dnd_until),
    )


def token(row: Token) -> wire.TokenView:
    return wire.TokenView(**token_fields(row))


def token_fields(row: Token) -> dict[str, Any]:
    return {
        "jti": row.jti,
        "handle": row.handle,
        "role": row.role,
        "session_id": row.session_id,
        "bridge": row.host,
        "note": row.note,
        "issued_at": to_datetime(row.issued_at),
        "issued_by": row.issued_by,
        "expires_at": to_datetime(row.expires_at),
        "revoked_at": _when(row.revoked_at),
    }


def grant(row: Grant) -> wire.GrantView:
    return wire.GrantView(
        scope=row.scope,
        grantee=row.grantee,
        owner=row.owner,
        granted_by=row.granted_by,
        created_at=to_datetime(row.created_at),
    )


def block(row: Block) -> wire.BlockView:
    return wire.BlockView(
        blocker=row.blocker, blocked=row.blocked, created_by=row.created_by, created_at=to_datetime(row.created_at)
    )


def refusal(row: Refusal) -> wire.RefusalView:
    return wire.RefusalView(
        handle=row.handle,
        rule=row.rule,
        minute=to_datetime(row.minute),
        count=row.count,
        last_message=row.last_message,
    )


def dead_letter(row: DeadLetter) -> wire.DeadLetterView:
    return wire.DeadLetterView(
        dead_letter_id=row.dead_letter_id,
        sender=row.sender,
        code=row.code,
        reason=row.reason,
        payload=row.payload,
        created_at=to_datetime(row.created_at),
        attempts=row.attempts,
        redriven_at=_when(row.redriven_at),
        message_id=row.message_id,
    )


def session(row: Session, *, presence: str, dormant: bool, liveness: str) -> wire.SessionView:
    return wire.SessionView(
        session_id=row.session_id,
        handle=row.handle,
        harness=row.harness,
        harness_version=row.harness_version,
        transport=row.transport,
        native_id=row.native_id,
        host=row.host,
        cwd=row.cwd,
        pid=row.pid,
        pid_started_at=_when(row.pid_started_at),
        wake_mode=row.wake_mode,
        replyable=bool(row.replyable),
        capabilities=_list(row.capabilities),
        levels=_words(row.levels),
        presence=presence,
        active_turn_id=row.active_turn_id,
        presence_source=row.presence_source,
        presence_at=to_datetime(row.presence_at),
        context_tokens=row.context_tokens,
        context_limit=row.context_limit,
        resumable=bool(row.resumable),
        task_id=row.task_id,
        branch=row.branch,
        started_at=to_datetime(row.started_at),
        last_seen_at=to_datetime(row.heartbeat_at),
        ended_at=_when(row.ended_at),
        dormant=dormant,
        liveness=liveness,
    )
