"""Stage 4, deliver: claim what is due under a lease, settle it under its fence, with evidence for every step.

Who dies between two steps leaves a lease behind that runs out; then the next one claims it.  A webhook is sent again
with the same bytes.  What types into a session cannot be sent again blindly: its outcome is `unknown`.
"""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus

import msgspec

from wakeline.core.cursor import fail
from wakeline.core.delivery import Delivery, Outcome, Step
from wakeline.core.instant import plus
from wakeline.core.log import PRINCIPAL_STREAM
from wakeline.core.parcel import Absent, Accepted, Failed, Refused, Result, Uncertain
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import SYSTEM
from wakeline.core.subscription import SubscriptionStatus, callback_of, ends_at
from wakeline.core.wake import WakeState
from wakeline.core.waking import WakeRules, Why
from wakeline.flow import evidence
from wakeline.flow.evidence import record
from wakeline.flow.plan import Planned, Stamp, claim, plan, retire

_replace = msgspec.structs.replace

BACKOFF = (timedelta(seconds=1), timedelta(seconds=2), timedelta(seconds=4))
LONGEST_PAUSE = timedelta(minutes=5)  # that a receiver can ask for: what comes meanwhile waits behind it
DEGRADE_AFTER = 3
ROUTE_CHANGED = "route_changed"


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
        evidence.need_plans(needs, [self.subscription_id])

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
            evidence.end(picture, delivery, Outcome.SKIPPED, str(Why.NO_CONNECTION))
            evidence.give_back(picture, delivery, WakeState.HELD, str(Why.NO_CONNECTION))
        case Uncertain():
            evidence.end(picture, delivery, Outcome.UNKNOWN, result.reason, {"detail": result.detail})
        case Refused() | Failed() if _is_rerouted(picture, delivery):
            _hand_over(picture, delivery, {"was": result.reason, "detail": result.detail})
        case Refused() if callback_of(picture.subscriptions[delivery.subscription_id]) is not None:
            _refused_by_callback(picture, delivery, result, rules)
        case Refused():
            _refused(picture, delivery, result, rules)
        case Failed() if result.retryable and delivery.attempts <= len(BACKOFF):
            _try_again(picture, delivery, result)
        case Failed():
            _exhausted(picture, delivery, result, rules)


def _is_rerouted(picture: Picture, delivery: Delivery) -> bool:
    return picture.subscriptions[delivery.subscription_id].target != delivery.target


def _hand_over(picture: Picture, delivery: Delivery, detail: dict[str, object] | None = None) -> None:
    """Its subscription has another target by now.  What failed says nothing of the new route, which gets its events."""
    evidence.end(picture, delivery, Outcome.SKIPPED, ROUTE_CHANGED, detail)
    evidence.give_back(picture, delivery, WakeState.WAITING, None)


def _refused(picture: Picture, delivery: Delivery, result: Refused, rules: WakeRules) -> None:
    _failed(picture, delivery, result.reason, result.detail, rules)
    _degrade(picture, delivery.subscription_id, f"The receiver refused: {result.reason}.")


def _refused_by_callback(picture: Picture, delivery: Delivery, result: Refused, rules: WakeRules) -> None:
    """The draft MCP Events gives three refusals a meaning of their own."""
    match result.status:
        case HTTPStatus.GONE:
            _failed(picture, delivery, "gone", result.detail, rules)
            retire(picture, picture.subscriptions[delivery.subscription_id], "gone", SYSTEM)
        case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            evidence.end(picture, delivery, Outcome.FAILED, "too_large", {"detail": result.detail})
            evidence.give_back(picture, delivery, WakeState.DROPPED, "too_large")
        case HTTPStatus.TOO_EARLY:
            settle(picture, delivery, Failed("too_early", result.detail), rules)
        case _:
            _refused(picture, delivery, result, rules)


def _accepted(picture: Picture, delivery: Delivery, result: Accepted) -> None:
    delivery = _replace(delivery, step=Step.TRIGGERED)
    evidence.end(picture, delivery, Outcome.DELIVERED, None, {"status": result.status})
    evidence.give_back(picture, delivery, WakeState.RUNG, None)
    evidence.confirm(picture, delivery)


def _try_again(picture: Picture, delivery: Delivery, result: Failed) -> None:
    """Not before its receiver wants to hear of it, within bounds."""
    asked = min(result.pause or timedelta(), LONGEST_PAUSE)
    at = plus(picture.now, max(BACKOFF[delivery.attempts - 1], asked))
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
    picture.move_subscription_tail(_replace(subscription, failures=failures))
    if failures >= DEGRADE_AFTER:
        _degrade(picture, delivery.subscription_id, f"{failures} deliveries in a row failed: {result.reason}.")


def _failed(picture: Picture, delivery: Delivery, reason: str, detail: str, rules: WakeRules) -> None:
    """The receiver does not know of these events: they stay due, and an operator can see and re-drive them."""
    evidence.end(picture, delivery, Outcome.FAILED, reason, {"detail": detail})
    again = plus(picture.now, timedelta(seconds=rules.supervisor_seconds))
    evidence.give_back(picture, delivery, WakeState.HELD, str(Why.FAILED), again)
    picture.put_cursor(fail(evidence.cursor_of(picture, delivery), f"{reason}: {detail}", picture.now))


def _degrade(picture: Picture, subscription_id: str, why: str) -> None:
    subscription = picture.subscriptions[subscription_id]
    picture.put_subscription(
        _replace(
            subscription,
            status=SubscriptionStatus.DEGRADED,
            status_reason=why,
            flush_at=ends_at(subscription),
            updated_at=picture.now,
        )
    )
    stream = PRINCIPAL_STREAM + subscription.handle
    picture.append("subscription.degraded", stream, 0, SYSTEM, subscription_id, {"reason": why})


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
        if _is_rerouted(picture, delivery):
            _hand_over(picture, delivery)
        elif delivery.attempts > len(BACKOFF):
            settle(
                picture, delivery, Failed("lease_expired", "The last attempt was never reported.", False), self.rules
            )
        elif not evidence.is_wanted(picture, delivery):
            evidence.end(picture, delivery, Outcome.SKIPPED, str(Why.READ))
            evidence.give_back(picture, delivery, WakeState.DROPPED, str(Why.READ))
        else:
            return Planned(claim(picture, delivery, self.rules, self.stamp), subscription)
        evidence.look_again(picture, subscription.subscription_id)
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
