"""What became of a delivery, written down: its evidence, its end, and what that means to the wakes that it carried."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from wakeline.core.cursor import Cursor, advance, nowhere
from wakeline.core.delivery import Delivery, DeliveryStep, Outcome
from wakeline.core.message import Receipt
from wakeline.core.picture import Needs, Picture
from wakeline.core.subscription import SubscriptionStatus
from wakeline.core.wake import Wake, WakeState
from wakeline.core.waking import is_over

_replace = msgspec.structs.replace
_encode = msgspec.json.Encoder().encode

STREAM = "log"


def consumer_of(subscription_id: str) -> str:
    return f"wake_subscription:{subscription_id}"


def need_plans(needs: Needs, subscription_ids: Iterable[str], *, seatless: Collection[str] = ()) -> None:
    """What planning must know, and what it may have to confirm.  `seatless` are known to ring in no session."""
    for subscription_id in subscription_ids:
        needs.plans.add(subscription_id)
        if subscription_id not in seatless:
            needs.seats.add(subscription_id)
        needs.cursors.add((consumer_of(subscription_id), STREAM, ""))


def record(picture: Picture, delivery: Delivery, step: str, detail: dict[str, object] | None = None) -> None:
    """One row of evidence.  Written in the same transaction as what it speaks of."""
    number = delivery.steps + 1
    encoded = None if detail is None else _encode(detail).decode()
    picture.add_delivery_step(
        DeliveryStep(delivery.delivery_id, number, delivery.workspace_id, picture.now, step, delivery.attempts, encoded)
    )
    picture.put_delivery(_replace(delivery, steps=number))


def end(
    picture: Picture, delivery: Delivery, outcome: Outcome, reason: str | None, detail: dict[str, object] | None = None
) -> None:
    ended = _replace(
        delivery,
        outcome=outcome,
        reason=reason,
        next_attempt_at=None,
        lease_owner=None,
        lease_until=None,
        settled_at=picture.now,
    )
    step = ended.step if outcome is Outcome.DELIVERED else outcome
    record(picture, ended, step, {"reason": reason, **(detail or {})})


def wakes_of(picture: Picture, delivery: Delivery) -> list[Wake]:
    """Those that it carries now."""
    return [
        wake
        for wake in picture.wakes.values()
        if wake.delivery_id == delivery.delivery_id and wake.state == WakeState.RINGING
    ]


def give_back(
    picture: Picture,
    delivery: Delivery,
    state: WakeState,
    reason: str | None,
    until: int | None = None,
    unsure_at: int | None = None,
) -> None:
    for wake in wakes_of(picture, delivery):
        picture.put_wake(
            _replace(wake, state=state, reason=reason, until=until, unsure_at=unsure_at, updated_at=picture.now)
        )


def take_back(
    picture: Picture,
    delivery: Delivery,
    state: WakeState,
    reason: str | None,
    until: int | None = None,
    since: int | None = None,
) -> None:
    """Nothing was rung inside the session, so it does not count as a ring.  `since`: the last that was known of it."""
    for wake in wakes_of(picture, delivery):
        before = _replace(wake, rings=max(0, wake.rings - 1), unsure_at=None)
        picture.put_wake(_replace(before, state=state, reason=reason, until=until, updated_at=since or picture.now))


def receipt_of(picture: Picture, wake: Wake) -> Receipt | None:
    return picture.receipts.get((wake.thread_id or "", wake.seq or 0, wake.handle))


def is_wanted(picture: Picture, delivery: Delivery) -> bool:
    """Is there still one of its events that the receiver has not dealt with?"""
    return bool(delivery.replay) or any(
        is_over(wake, receipt_of(picture, wake), picture.now) is None for wake in wakes_of(picture, delivery)
    )


def confirm(picture: Picture, delivery: Delivery) -> None:
    """Count it, and move the subscription's cursor.  A replay, or a wake that was held, may lie behind it already."""
    subscription = picture.subscriptions[delivery.subscription_id]
    counted = _replace(subscription, failures=0)
    if not delivery.replay and delivery.fence:  # what nobody claimed was told in a turn that had begun: it is no ring
        latency = max(0, picture.now - delivery.occurred_at)
        counted = _replace(
            counted,
            latency_total=subscription.latency_total + latency,
            latency_most=max(subscription.latency_most, latency),
            confirmed=subscription.confirmed + 1,
        )
    picture.move_subscription_tail(counted)
    cursor = cursor_of(picture, delivery)
    if delivery.log_id > cursor.last_sequence:
        picture.put_cursor(advance(cursor, delivery.log_id, delivery.delivery_id, picture.now))


def cursor_of(picture: Picture, delivery: Delivery) -> Cursor:
    key = (consumer_of(delivery.subscription_id), STREAM, "")
    return picture.cursors.get(key) or nowhere(delivery.workspace_id, *key)


def look_again(picture: Picture, subscription_id: str) -> None:
    """The planner must look: the picture here does not hold what else waits."""
    subscription = picture.subscriptions.get(subscription_id)
    if subscription is not None and subscription.status == SubscriptionStatus.ACTIVE:
        picture.move_subscription_tail(_replace(subscription, flush_at=picture.now))
