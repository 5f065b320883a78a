"""Deliveries and replays on the wire."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from wakeline.wire.common import Answer, Epoch, Handle, Id, Instant, Limit, Query, Request

DeliveryOutcome = Literal["delivered", "skipped", "failed", "unknown", "open"]


class DeliveriesQuery(Query, frozen=True):
    handle: Handle | None = None
    subscription_id: Id | None = None
    outcome: DeliveryOutcome | None = None
    before: Id | None = None
    limit: Limit = 50


class StepView(Answer, frozen=True):
    """One row of evidence."""

    number: int
    at: Instant
    step: str
    attempt: int
    detail: dict[str, Any] | None


class DeliveryView(Answer, frozen=True):
    delivery_id: str
    subscription_id: str
    handle: str
    session_id: str | None
    target: str
    event_id: str
    event_type: str
    log_id: int
    events: int
    replay: bool
    step: str
    outcome: str | None
    reason: str | None
    attempts: int
    next_attempt_at: Instant | None
    occurred_at: Instant
    created_at: Instant
    settled_at: Instant | None
    steps: list[StepView] | UnsetType = UNSET
    body: dict[str, Any] | UnsetType = UNSET


class Deliveries(Answer, frozen=True):
    deliveries: list[DeliveryView]
    has_more: bool
    next: str | None


class Resync(Request, frozen=True):
    since_log_id: Annotated[int, Meta(ge=0, le=2**53)]
    epoch: Epoch | None = None


class Resynced(Answer, frozen=True):
    subscription_id: str
    events_replayed: int
    last_log_id: int
    clamped: bool
    delivery_id: str | None
