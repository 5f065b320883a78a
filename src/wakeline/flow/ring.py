"""Stage 4 for sessions: a bridge claims what is to be rung on its host, rings, and settles under its fence.

What types into a session cannot be sent again blindly.  A harness's acceptance is only `triggered`: the delivery stays
open, and its session reserved, until the harness shows our mark, the mail is read, or the time for both is over.  What
nobody can tell the end of is `unknown`, and may ring once more when its session was seen idle without it.
"""

from __future__ import annotations

import msgspec

from wakeline.core.delivery import Delivery, Outcome, Step, is_postponed
from wakeline.core.instant import SECOND
from wakeline.core.parcel import Absent, Accepted, Failed, Refused, Result, Uncertain
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.seat import does_queue
from wakeline.core.session import Presence, Session, presence_of
from wakeline.core.subscription import Subscription, Target
from wakeline.core.wake import WakeState
from wakeline.core.waking import REBUFFED, WakeRules, Why, may_disturb
from wakeline.flow import evidence
from wakeline.flow.plan import Planned, Stamp, claim, plan
from wakeline.flow.review import doubt, finish, postpone, skip
from wakeline.flow.tend import admit_bridge

_replace = msgspec.structs.replace

# Why a session of this presence is not rung in just now.
_BUSY = {
    Presence.UNKNOWN: Why.UNKNOWN,
    Presence.ACTIVE: Why.ACTIVE,
    Presence.WAITING_ON_APPROVAL: Why.APPROVAL,
    Presence.USER_TYPING: Why.TYPING,
}


class ToRing(msgspec.Struct, frozen=True):
    delivery: Delivery
    subscription: Subscription
    session: Session


class ClaimRings(msgspec.Struct, frozen=True):
    """Take these up, as far as they are still wanted and their sessions may be disturbed."""

    caller: Caller
    bridge_id: str
    found: tuple[tuple[str, str, str], ...]  # (delivery, subscription, session)
    rules: WakeRules
    stamp: Stamp

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.bridges.add(self.caller.host or "")
        for delivery_id, subscription_id, session_id in self.found:
            needs.deliveries.add(delivery_id)
            needs.sessions.add(session_id)
            evidence.need_plans(needs, [subscription_id])

    def decide(self, picture: Picture) -> list[ToRing]:
        host = admit_bridge(picture, self.caller, self.bridge_id)
        taken = []
        for delivery_id, subscription_id, session_id in self.found:
            delivery = picture.deliveries.get(delivery_id)
            subscription, session = picture.subscriptions.get(subscription_id), picture.sessions.get(session_id)
            if delivery is None or subscription is None or session is None or session.host != host:
                continue
            if is_waiting(delivery) and self._may_ring(picture, delivery, session):
                taken.append(ToRing(claim(picture, delivery, self.rules, self.stamp), subscription, session))
        return taken

    def _may_ring(self, picture: Picture, delivery: Delivery, session: Session) -> bool:
        """Everything is looked at once more, just before ringing."""
        if _is_reserved(picture, delivery, session.session_id) or _was_rebuffed(picture, delivery):
            return False
        presence = presence_of(session, picture.now, self.rules.presence_stale_seconds * SECOND)
        if not evidence.is_wanted(picture, delivery):
            skip(picture, delivery, Why.READ, WakeState.DROPPED)
        elif session.ended_at is not None:
            skip(picture, delivery, Why.NO_SESSION, WakeState.WAITING)
        elif not may_disturb(presence, queues=does_queue(session)):
            skip(picture, delivery, _BUSY[presence], WakeState.HELD)
        else:
            return True
        plan(picture, delivery.subscription_id, self.rules, self.stamp)
        return False


def is_waiting(delivery: Delivery) -> bool:
    """For a bridge to take it up."""
    unclaimed = delivery.outcome is None and delivery.lease_owner is None
    return unclaimed and delivery.target == Target.BRIDGE and delivery.step == Step.QUEUED


def _is_reserved(picture: Picture, delivery: Delivery, session_id: str) -> bool:
    """Is another ring under way in this session?"""
    return any(
        other.session_id == session_id
        and other.outcome is None
        and other.delivery_id != delivery.delivery_id
        and not is_waiting(other)
        for other in picture.deliveries.values()
    )


def _was_rebuffed(picture: Picture, delivery: Delivery) -> bool:
    """A replay that its session did not take: not again before its time."""
    rebuffed = is_postponed(delivery) and delivery.reason in REBUFFED
    return rebuffed and (delivery.next_attempt_at or 0) > picture.now


class RingSettled(msgspec.Struct, frozen=True):
    """`stale`: it is not the caller's any more; nothing was changed."""

    stale: bool
    delivery: Delivery | None


class SettleRing(msgspec.Struct, frozen=True):
    """Record what came of a ring, and plan what waited behind it.  The fence is the right to do so."""

    caller: Caller
    delivery_id: str
    subscription_id: str
    session_id: str
    fence: int
    result: Result
    rules: WakeRules
    stamp: Stamp

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.deliveries.add(self.delivery_id)
        needs.sessions.add(self.session_id)
        evidence.need_plans(needs, [self.subscription_id])

    def decide(self, picture: Picture) -> RingSettled:
        delivery = picture.deliveries.get(self.delivery_id)
        if delivery is None or delivery.fence != self.fence or delivery.lease_owner is None:
            return RingSettled(stale=True, delivery=delivery)
        _settle(picture, delivery, self.result, self.rules)
        plan(picture, self.subscription_id, self.rules, self.stamp)
        return RingSettled(stale=False, delivery=picture.deliveries[self.delivery_id])


def _settle(picture: Picture, delivery: Delivery, result: Result, rules: WakeRules) -> None:
    later = picture.now + rules.outstanding_seconds * SECOND
    match result:
        case Accepted():
            _triggered(picture, delivery, result, rules)
        case Absent():
            claimed = _claimed_at(delivery, rules)
            until = picture.now + rules.supervisor_seconds * SECOND if _just_heard(picture, delivery, rules) else later
            carried = [wake.log_id for wake in evidence.wakes_of(picture, delivery) if not wake.addressed]
            skip(picture, delivery, Why.NO_CONNECTION, WakeState.HELD, until, claimed)
            _mark(picture, delivery, carried)
        case Refused() if delivery.replay:
            postpone(picture, delivery, Why.REFUSED, later)
        case Refused():
            evidence.end(picture, delivery, Outcome.SKIPPED, result.reason, {"detail": result.detail})
            evidence.take_back(picture, delivery, WakeState.HELD, str(Why.REFUSED), later)
        case Failed():
            again = picture.now + rules.supervisor_seconds * SECOND
            evidence.end(picture, delivery, Outcome.FAILED, result.reason, {"detail": result.detail})
            evidence.take_back(picture, delivery, WakeState.HELD, str(Why.FAILED), again)
        case Uncertain():
            doubt(picture, delivery, result.reason, result.detail)


def _mark(picture: Picture, delivery: Delivery, carried: list[int]) -> None:
    """With the session in which nobody was: a sibling is woken in its place, and does not inherit its silence."""
    for log_id in carried:
        wake = picture.wakes[delivery.subscription_id, log_id]
        picture.put_wake(_replace(wake, session_id=delivery.session_id))


def _claimed_at(delivery: Delivery, rules: WakeRules) -> int | None:
    """A companion that sits down after this was perhaps not looked for any more, and says nothing new about itself."""
    return None if delivery.lease_until is None else delivery.lease_until - rules.lease_seconds * SECOND


def _just_heard(picture: Picture, delivery: Delivery, rules: WakeRules) -> bool:
    """Then its companion is perhaps on its way to a bridge that has just begun, and need not wait for long."""
    session = picture.sessions.get(delivery.session_id or "")
    return session is not None and session.heartbeat_at > picture.now - 2 * rules.lease_seconds * SECOND


def _triggered(picture: Picture, delivery: Delivery, result: Accepted, rules: WakeRules) -> None:
    """The harness took it.  It stays open: what proves more, or the end of waiting for that, is still to come."""
    until = max(picture.now, delivery.created_at + rules.outstanding_seconds * SECOND)
    open_still = _replace(
        delivery, step=Step.TRIGGERED, lease_owner=None, lease_until=None, next_attempt_at=until, reason=None
    )
    evidence.record(picture, open_still, Step.TRIGGERED, {"detail": result.detail})


class Lapse(msgspec.Struct, frozen=True):
    """The time of these is over: nobody took them up, nobody settled them, or nobody confirmed that they arrived."""

    workspace_id: int
    found: tuple[tuple[str, str], ...]  # (delivery, subscription)
    rules: WakeRules
    stamp: Stamp

    def needs(self, needs: Needs) -> None:
        for delivery_id, subscription_id in self.found:
            needs.deliveries.add(delivery_id)
            evidence.need_plans(needs, [subscription_id])

    def decide(self, picture: Picture) -> list[Planned]:
        for delivery_id, _ in self.found:
            delivery = picture.deliveries.get(delivery_id)
            if delivery is not None and self._is_over(picture, delivery):
                self._end(picture, delivery)
        theirs = dict.fromkeys(subscription_id for _, subscription_id in self.found)
        planned = [plan(picture, one, self.rules, self.stamp) for one in theirs]
        return [one for one in planned if one is not None]

    def _is_over(self, picture: Picture, delivery: Delivery) -> bool:
        due = delivery.next_attempt_at
        if delivery.outcome is not None or due is None or due > picture.now:
            return False
        patience = self.rules.outstanding_seconds * SECOND
        return not is_waiting(delivery) or delivery.created_at + patience <= picture.now

    def _end(self, picture: Picture, delivery: Delivery) -> None:
        if delivery.lease_owner is not None:
            doubt(picture, delivery, "lease_expired", "Nobody knows whether it was rung.")
        elif delivery.step == Step.QUEUED:
            skip(picture, delivery, Why.NO_BRIDGE, WakeState.WAITING)
        elif not evidence.is_wanted(picture, delivery):
            finish(picture, delivery)
        else:
            doubt(picture, delivery, "not_injected", "Its session never showed it.")
