"""Threads on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from wakeline.wire.common import (
    Answer,
    Handle,
    Id,
    Instant,
    Key,
    Limit,
    Query,
    Reason,
    Request,
    Seq,
    ThreadStatus,
    ThreadType,
    Tokens,
)
from wakeline.wire.messages import MessageView


class CreateThread(Request, frozen=True):
    title: Annotated[str, Meta(min_length=1, max_length=200)]
    type: ThreadType = "conversation"
    members: Annotated[list[Handle], Meta(max_length=1000)] = []
    coordinator: Handle | None = None
    idempotency_key: Key | None = None


class MemberView(Answer, frozen=True):
    handle: str
    joined_at: Instant
    joined_seq: int
    last_read_seq: int


class ThreadView(Answer, frozen=True):
    thread_id: str
    type: str
    status: str
    title: str
    created_by: str
    coordinator: str | None
    escalation_owner: str | None
    last_seq: int
    created_at: Instant
    updated_at: Instant
    closed_at: Instant | None
    members: list[MemberView] | UnsetType = UNSET


class Threads(Answer, frozen=True):
    threads: list[ThreadView]
    has_more: bool
    next: str | None


class ThreadsQuery(Query, frozen=True):
    status: ThreadStatus | None = None
    type: ThreadType | None = None
    limit: Limit = 50
    after: Id | None = None


class ChangeMembers(Request, frozen=True):
    members: Annotated[list[Handle], Meta(min_length=1, max_length=1000)]


class ChangeStatus(Request, frozen=True):
    status: ThreadStatus
    reason: Reason | None = None
    escalation_owner: Handle | None = None
    override: bool = False


class ReadQuery(Query, frozen=True):
    since_seq: Seq = 0
    limit: Limit = 50
    max_tokens: Tokens | None = None


class ThreadMessages(Answer, frozen=True):
    messages: list[MessageView]
    next_seq: int
    has_more: bool


class AckThread(Request, frozen=True):
    last_read_seq: Annotated[int, Meta(ge=0, le=2**53)]


class ThreadAcked(Answer, frozen=True):
    last_read_seq: int
    unread: int


class ParticipantSummary(Answer, frozen=True):
    handle: str
    messages: int
    last_read_seq: int


class OpenQuestion(Answer, frozen=True):
    message_id: str
    seq: int
    sender: str
    text: str


class Decision(Answer, frozen=True):
    message_id: str
    seq: int
    sender: str
    text: str


class ThreadSummary(Answer, frozen=True):
    thread_id: str
    title: str
    type: str
    status: str
    messages: int
    summarised_from_seq: int
    participants: list[ParticipantSummary]
    open_questions: list[OpenQuestion]
    decisions: list[Decision]
    first_at: Instant | None
    last_at: Instant | None
    text: str
