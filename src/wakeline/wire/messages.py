"""Messages, receipts and the inbox on the wire."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from wakeline.wire.common import (
    Address,
    Answer,
    Handle,
    Id,
    InboxPage,
    Instant,
    Key,
    Limit,
    LogPosition,
    MessageKind,
    Moment,
    Priority,
    Query,
    Reason,
    Request,
    Session,
    Tags,
    Tokens,
    WakePolicy,
)


class PostMessage(Request, frozen=True):
    body: str
    # The lone string is checked later: a pattern on both sides of a union makes msgspec free it twice.
    to: Annotated[list[Address], Meta(min_length=1, max_length=1000)] | str | UnsetType = UNSET
    thread_id: Id | UnsetType = UNSET
    subject: str | None = None
    kind: MessageKind = "chat"
    priority: Priority = "normal"
    wake_policy: WakePolicy | None = None
    tags: Tags = []
    in_reply_to: Id | None = None
    idempotency_key: Key | None = None
    expires_at: Moment | None = None
    answer_by: Moment | None = None
    supersedes: Id | None = None
    metadata: dict[str, Any] | None = None
    schema_version: Literal[1] = 1
    wait_seconds: Annotated[float, Meta(ge=0, le=50)] = 0
    sender: str | UnsetType = UNSET
    from_: str | UnsetType = msgspec.field(default=UNSET, name="from")
    session_id: Session | UnsetType = UNSET


class ReceiptView(Answer, frozen=True):
    recipient: str
    seen_at: Instant | None = None
    read_at: Instant | None = None
    archived_at: Instant | None = None
    lapsed: str | None = None


class ChainView(Answer, frozen=True):
    """What a message came from: the first message, its sender, and who took it into another thread."""

    root: str
    hops: list[str]


class MessageView(Answer, frozen=True):
    message_id: str
    thread_id: str
    seq: int
    log_id: int
    sender: str
    kind: str
    subject: str | None
    body: str
    to: list[str]
    priority: str
    wake_policy: str
    tags: list[str]
    in_reply_to: str | None
    expires_at: Instant | None
    supersedes: str | None
    superseded_by: str | None
    retracted_at: Instant | None
    metadata: dict[str, Any] | None
    schema_version: int
    created_at: Instant
    state: Literal["current", "expired", "retracted", "superseded"]
    session_id: str | None = None
    body_truncated: bool = False
    receipt: ReceiptView | None = None
    receipts: list[ReceiptView] | UnsetType = UNSET
    chain: ChainView | UnsetType = UNSET
    answer_by: Instant | UnsetType = UNSET


class GuardView(Answer, frozen=True):
    """The message made a guard fire: its thread is blocked, and this incident tells the human."""

    code: str
    incident_thread_id: str | None


class Posted(Answer, frozen=True):
    message_id: str
    thread_id: str
    seq: int
    log_id: int
    created_at: Instant
    epoch: str
    reply: MessageView | UnsetType | None = UNSET
    guard: GuardView | UnsetType = UNSET


class Inbox(Answer, frozen=True):
    messages: list[MessageView]
    unread: int
    has_more: bool
    next: str | None
    position: str


class InboxQuery(Query, frozen=True):
    limit: Limit = 50
    max_tokens: Tokens | None = None
    after: InboxPage | None = None
    state: Literal["unread", "all", "archived"] = "unread"
    of: Handle | None = None


class MailView(Answer, frozen=True):
    """An unread message without its body: enough to decide whether to read it now."""

    message_id: str
    thread_id: str
    seq: int
    log_id: int
    sender: str
    subject: str | None
    priority: str
    created_at: Instant


class Mail(Answer, frozen=True):
    """What is unread, and which of it is new; looking leaves no trace."""

    unread: int
    mail: list[MailView]
    position: str


class MailQuery(Query, frozen=True):
    after: LogPosition | None = None
    wait_seconds: Annotated[float, Meta(ge=0, le=50)] = 0


class MessageIds(Request, frozen=True):
    message_ids: Annotated[list[Id], Meta(min_length=1, max_length=500)]


class Acked(Answer, frozen=True):
    acked: int
    unread: int


class Archived(Answer, frozen=True):
    archived: int
    unread: int


class RetractMessage(Request, frozen=True):
    reason: Reason | None = None
