"""Search, log pages and events on the wire."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from wakeline.wire.common import Answer, Handle, Id, Instant, Limit, LogPosition, Query
from wakeline.wire.messages import MessageView


class SearchQuery(Query, frozen=True):
    q: Annotated[str, Meta(min_length=1, max_length=500)]
    thread_id: Id | None = None
    sender: Handle | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class Found(Answer, frozen=True):
    messages: list[MessageView]
    indexed_to: int


class EventView(Answer, frozen=True):
    """One row of the log, as the event stream and `GET /v1/log` show it."""

    log_id: int
    epoch: str
    kind: str
    stream: str
    stream_seq: int
    actor: str
    subject: str | None
    created_at: Instant
    message: MessageView | UnsetType = UNSET
    data: dict[str, Any] | UnsetType = UNSET


class LogQuery(Query, frozen=True):
    after: LogPosition = "0"
    limit: Limit = 100


class EventsQuery(Query, frozen=True):
    after: LogPosition | None = None


class LogPage(Answer, frozen=True):
    events: list[EventView]
    position: str
    has_more: bool
