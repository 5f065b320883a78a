"""Deliveries: the record of bringing one event or digest to one receiver, its ladder, its outcome, its evidence."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from wakeline.core.subscription import Target

LAST = "last"  # in the evidence of a turn's end: what the model said last, shown to the agent itself and to humans only


class Step(StrEnum):
    """The ladder.  A receiver's acceptance is only `triggered`."""

    QUEUED = "queued"
    TRIGGERED = "triggered"
    WOKE = "woke"
    INJECTED = "injected"
    PROCESSED = "processed"
    REPLIED = "replied"


class Outcome(StrEnum):
    DELIVERED = "delivered"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Delivery(msgspec.Struct, frozen=True, array_like=True, gc=False):
    delivery_id: str
    workspace_id: int
    subscription_id: str
    handle: str
    session_id: str | None
    target: str
    event_id: str  # the same on every attempt
    event_type: str
    log_id: int  # the highest of its events
    events: int
    body: str  # the exact bytes, on every attempt
    replay: int  # made by a resync
    step: str
    outcome: str | None
    reason: str | None
    attempts: int
    next_attempt_at: int | None
    lease_owner: str | None
    lease_until: int | None
    fence: int  # grows with every claim; what was claimed under an older one changes nothing
    steps: int  # how many rows of evidence there are
    occurred_at: int  # when the oldest of its events happened
    created_at: int
    settled_at: int | None = None


class DeliveryStep(msgspec.Struct, frozen=True, array_like=True, gc=False):
    delivery_id: str
    number: int
    workspace_id: int
    at: int
    step: str  # a rung of the ladder, or what happened between two of them
    attempt: int
    detail: str | None  # JSON


def is_postponed(delivery: Delivery) -> bool:
    """A replay that its session could not be told of yet.  It waits for its bridge, and keeps nothing else away."""
    unclaimed = delivery.outcome is None and delivery.lease_owner is None and delivery.step == Step.QUEUED
    return bool(delivery.replay) and unclaimed and delivery.target == Target.BRIDGE and delivery.reason is not None
