"""What `events/subscribe` of the draft MCP Events says and is answered, past its name, its arguments and its mode."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from wakeline.wire.common import Answer, Instant


class SubscribeEvents(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    secret: str
    cursor: str | None = None  # from now
    ttl_ms: int | UnsetType | None = UNSET  # None: without end
    max_age_ms: int | None = None


class CallbackStatus(Answer, frozen=True, rename="camel"):
    """How it was before this call, which sets it to work again."""

    active: bool
    last_delivery_at: Instant | None
    last_error: str | None


class EventsSubscribed(Answer, frozen=True, rename="camel"):
    id: str
    refresh_before: Instant | None
    cursor: str
    truncated: bool
    delivery_status: CallbackStatus | UnsetType = UNSET
