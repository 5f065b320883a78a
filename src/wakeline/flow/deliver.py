"""Stage 4, deliver: claim what is due under a lease, settle it under its fence, with evidence for every step.

Who dies between two steps leaves a lease behind that runs out; then the next one claims it.  A webhook is sent again
with the same bytes.  What types into a session cannot be sent again blindly: its outcome is `unknown`.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from wakeline.core.cursor import Cursor, advance, fail, nowhere
from wakeline.core.delivery import Delivery, Outcome, Step
from wakeline.core.instant import plus
from wakeline.core.log import PRINCIPAL_STREAM
from wakeline.core.message import Box
from wakeline.core.parcel import Absent, Accepted, Failed, Refused, Result, Uncertain
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import SYSTEM
from wakeline.core.subscription import Subscription, SubscriptionStatus, Target
from wakeline.core.wake import Wake, WakeState
from wakeline.core.waking import WakeRules, Why
from wakeline.flow.plan import Planned, Stamp, claim, plan, record

_replace = msgspec.structs.replace

BACKOFF = (timedelta(seconds=1), timedelta(seconds=2), timedelta(seconds=4))
DEGRADE_AFTER = 3
STREAM = "log"


def consumer_of(subscription_id: str) -> str:
    return f"wake_subscription:{subscription_id}"


class Settled(msgspec.Struct, frozen=True):
    """`stale`: somebody else holds the delivery by now; nothing was changed."""

    stale: bool
    planned: Planned | None = None


class Settle(msgspec.Struct, frozen=True):
    """Record what came of an attempt, and plan what waited behind it."""

    workspace_id: int
    delivery_id: str
    subscription_id: str
    fence: int
    result: Result
    rules: WakeRules
    stamp: Stamp

    def needs(self, needs: Needs) -> None:
        needs.deliveries.add(self.delivery_id)
        needs.plans.add(self.subscription_id)
        needs.cursors.add((consumer_of(self.subscription_id), STREAM, ""))

    def decide(self, picture: Picture) -> Settled:
        delivery = picture.deliveries.get(self.delivery_id)
        if delivery is None or delivery.fence != self.fence or delivery.outcome is not None:
            return Settled(stale=True)
        settle(picture, delivery, self.result, self.rules)
        return Settled(stale=False, planned=plan(picture, self.subscription_id, self.rules, self.stamp))


def settle(picture: Picture, delivery: Delivery, result: Result, rules: WakeRules) -> None:
    match result:
        case Accepted():
            _accepted(picture, delivery, result)
        case Absent():
            _ended(picture, delivery, Outcome.SKIPPED, str(Why.NO_CONNECTION), {})
            _give_back(picture, delivery, WakeState.HELD, str(Why.NO_CONNECTION))
        case Uncertain():
            _ended(picture, delivery, Outcome.UNKNOWN, result.reason, {"detail": result.detail})
        case Refused():
            _failed(picture, delivery, result.reason, result.detail, rules)
            _degrade(picture, delivery.subscription_id, f"The receiver refused: {result.reason}.")
        case Failed() if result.retryable and delivery.attempts <= len(BACKOFF):
            _try_again(picture, delivery, result)
        case Failed():
            _exhausted(picture, delivery, result, rules)


def _accepted(picture: Picture, delivery: Delivery, result: Accepted) -> None:
    delivery = _replace(delivery, step=Step.TRIGGERED)
    _ended(picture, delivery, Outcome.DELIVERED, None, {"status": result.status})
    for wake in _wakes_of(picture, delivery):
        picture.put_wake(_replace(wake, state=WakeState.RUNG, updated_at=picture.now))
    subscription = picture.subscriptions[delivery.subscription_id]
    latency = max(0, picture.now - delivery.occurred_at)
    counted = _replace(
        subscription,
        failures=0,
        latency_total=subscription.latency_total + (0 if delivery.replay else latency),
        latency_most=max(subscription.latency_most, 0 if delivery.replay else latency),
    )
    picture.put_subscription(counted)
    _advance(picture, delivery)


def _advance(picture: Picture, delivery: Delivery) -> None:
    """Confirmed progress.  A replay, or a wake that was held while later ones rang, lies behind it already."""
    cursor = _cursor(picture, delivery)
    if delivery.log_id > cursor.last_sequence:
        picture.put_cursor(advance(cursor, delivery.log_id, delivery.delivery_id, picture.now))


def _cursor(picture: Picture, delivery: Delivery) -> Cursor:
    key = (consumer_of(delivery.subscription_id), STREAM, "")
    return picture.cursors.get(key) or nowhere(delivery.workspace_id, *key)


def _try_again(picture: Picture, delivery: Delivery, result: Failed) -> None:
    at = plus(picture.now, BACKOFF[delivery.attempts - 1])
    record(
        picture,
        _replace(delivery, lease_owner=None, lease_until=None, next_attempt_at=at, reason=result.reason),
        "failed_attempt",
        {"reason": result.reason, "detail": result.detail, "next_attempt_at": at},
    )


def _exhausted(picture: Picture, delivery: Delivery, result: Failed, rules: WakeRules) -> None:
    _failed(picture, delivery, result.reason, result.detail, rules)
    subscription = picture.subscriptions[delivery.subscription_id]
    failures = subscription.failures + 1
    picture.put_subscription(_replace(subscription, failures=failures))
    if failures >= DEGRADE_AFTER:
        _degrade(picture, delivery.subscription_id, f"{failures} deliveries in a row failed: {result.reason}.")


def _failed(picture: Picture, delivery: Delivery, reason: str, detail: str, rules: WakeRules) -> None:
    """The receiver does not know of these events: they stay due, and an operator can see and re-drive them."""
    _ended(picture, delivery, Outcome.FAILED, reason, {"detail": detail})
    again = plus(picture.now, timedelta(seconds=rules.supervisor_seconds))
    _give_back(picture, delivery, WakeState.HELD, str(Why.FAILED), again)
    picture.put_cursor(fail(_cursor(picture, delivery), f"{reason}: {detail}", picture.now))


def _degrade(picture: Picture, subscription_id: str, why: str) -> None:
    subscription = picture.subscriptions[subscription_id]
    picture.put_subscription(
        _replace(
            subscription,
            status=SubscriptionStatus.DEGRADED,
            status_reason=why,
            flush_at=None,
            updated_at=picture.now,
        )
    )
    stream = PRINCIPAL_STREAM + subscription.handle
    picture.append("subscription.degraded", stream, 0, SYSTEM, subscription_id, {"reason": why})


def _ended(
    picture: Picture, delivery: Delivery, outcome: Outcome, reason: str | None, detail: dict[str, object]
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
    record(picture, ended, ended.step if outcome is Outcome.DELIVERED else outcome, {"reason": reason, **detail})


def _give_back(picture: Picture, delivery: Delivery, state: WakeState, reason: str, until: int | None = None) -> None:
    for wake in _wakes_of(picture, delivery):
        given = _replace(wake, state=state, reason=reason, until=until, updated_at=picture.now)
        picture.put_wake(given)


def _wakes_of(picture: Picture, delivery: Delivery) -> list[Wake]:
    return [
        wake
        for wake in picture.wakes.values()
        if wake.delivery_id == delivery.delivery_id and wake.state == WakeState.RINGING
    ]


class Claim(msgspec.Struct, frozen=True):
    """Take up deliveries that are due: retries, and what a node that died left behind."""

    workspace_id: int
    delivery_ids: tuple[str, ...]
    subscription_ids: tuple[str, ...]  # theirs
    rules: WakeRules
    stamp: Stamp
    restarted: bool = False  # leases in this node's own name are of its former life

    def needs(self, needs: Needs) -> None:
        needs.deliveries.update(self.delivery_ids)
        needs.subscriptions.update(self.subscription_ids)

    def decide(self, picture: Picture) -> list[Planned]:
        taken = [self._take(picture, picture.deliveries[one]) for one in self.delivery_ids if one in picture.deliveries]
        return [one for one in taken if one is not None]

    def _take(self, picture: Picture, delivery: Delivery) -> Planned | None:
        subscription = picture.subscriptions.get(delivery.subscription_id)
        if subscription is None or not self._is_due(picture, delivery):
            return None
        if delivery.lease_owner is not None and delivery.target == Target.BRIDGE:
            settle(
                picture, delivery, Uncertain("lease_expired", "Nobody knows whether it was brought out."), self.rules
            )
        elif delivery.attempts > len(BACKOFF):
            settle(
                picture, delivery, Failed("lease_expired", "The last attempt was never reported.", False), self.rules
            )
        elif not self._is_wanted(picture, delivery):
            _ended(picture, delivery, Outcome.SKIPPED, str(Why.READ), {})
            _give_back(picture, delivery, WakeState.DROPPED, str(Why.READ))
        else:
            return Planned(claim(picture, delivery, self.rules, self.stamp), subscription)
        self._look_again(picture, subscription.subscription_id)
        return None

    def _is_due(self, picture: Picture, delivery: Delivery) -> bool:
        mine = self.restarted and delivery.lease_owner == self.stamp.node
        due = delivery.next_attempt_at is not None and (mine or delivery.next_attempt_at <= picture.now)
        return delivery.outcome is None and due and not self._is_behind(picture, delivery)

    def _is_behind(self, picture: Picture, delivery: Delivery) -> bool:
        """Is an earlier one of the same subscription still under way?  They go out in order."""
        return any(
            other.subscription_id == delivery.subscription_id
            and other.outcome is None
            and other.delivery_id < delivery.delivery_id
            for other in picture.deliveries.values()
        )

    def _is_wanted(self, picture: Picture, delivery: Delivery) -> bool:
        """Is there still one of its events that the receiver has not dealt with?"""
        return any(_is_unread(picture, wake) for wake in _wakes_of(picture, delivery)) or bool(delivery.replay)

    def _look_again(self, picture: Picture, subscription_id: str) -> None:
        """The planner must look: the picture here does not hold what else waits."""
        subscription: Subscription = picture.subscriptions[subscription_id]
        if subscription.status == SubscriptionStatus.ACTIVE:
            picture.put_subscription(_replace(subscription, flush_at=picture.now))


def _is_unread(picture: Picture, wake: Wake) -> bool:
    if wake.message_id is None:
        return True
    receipt = picture.receipts.get((wake.thread_id or "", wake.seq or 0, wake.handle))
    fresh = receipt is not None and (receipt.expires_at is None or receipt.expires_at > picture.now)
    return receipt is not None and fresh and receipt.box == Box.UNREAD
