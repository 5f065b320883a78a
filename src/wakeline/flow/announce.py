"""A session begins a turn: what waits for it is told in this very turn, through the harness's own hook.

So mail for the next turn reaches it, and what would have been rung when the turn is over need not ring.  It is a
delivery like any other, only that nobody had to be woken: it is `triggered`, and the mark in a prompt proves more.
"""

from __future__ import annotations

import msgspec

from wakeline.core.bridge_queries import Unread
from wakeline.core.delivery import Delivery, Step
from wakeline.core.event import content_of
from wakeline.core.instant import SECOND
from wakeline.core.parcel import mark_of
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.session import Session
from wakeline.core.subscription import Subscription, SubscriptionStatus, Target
from wakeline.core.wake import Wake, WakeState
from wakeline.core.waking import WakeRules, is_over
from wakeline.errors import NotFound
from wakeline.flow import evidence
from wakeline.flow.plan import Stamp, is_ringing, make_delivery
from wakeline.flow.ring import is_waiting
from wakeline.flow.tend import admit_bridge

_replace = msgspec.structs.replace

_OPEN = frozenset({WakeState.WAITING, WakeState.HELD, WakeState.NEXT_TURN})


class Announce(msgspec.Struct, frozen=True):
    """Answers the marks of what is announced; None: a ring is on its way into this session, and tells it all."""

    caller: Caller
    bridge_id: str
    session_id: str
    turn_id: str | None
    found: tuple[Unread, ...]
    handle: str  # whose session it is, as the reader found it
    under_way: tuple[str, ...]  # deliveries for this session
    rules: WakeRules
    stamp: Stamp

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.bridges.add(self.caller.host or "")
        needs.sessions.add(self.session_id)
        needs.deliveries.update(self.under_way)
        for one in self.found:
            needs.wakes.add((one.subscription_id, one.log_id))
            needs.receipts.add((one.message_id, self.handle))
            evidence.need_plans(needs, [one.subscription_id])

    def decide(self, picture: Picture) -> list[str] | None:
        host = admit_bridge(picture, self.caller, self.bridge_id)
        session = picture.sessions.get(self.session_id)
        if session is None or session.host != host or session.ended_at is not None:
            raise NotFound("SESSION_NOT_FOUND", f"The host {host} has no session {self.session_id}.")
        if any(_is_on_its_way(one, session) for one in picture.deliveries.values()):
            return None
        theirs = dict.fromkeys(one.subscription_id for one in self.found)
        marks = [self._tell(picture, session, picture.subscriptions.get(one)) for one in theirs]
        return [mark for mark in marks if mark is not None]

    def _tell(self, picture: Picture, session: Session, subscription: Subscription | None) -> str | None:
        if subscription is None or subscription.status == SubscriptionStatus.RETIRED:
            return None
        if subscription.target != Target.BRIDGE or is_ringing(picture, subscription.subscription_id):
            return None
        wakes = [wake for wake in self._wakes(picture, session) if wake.subscription_id == subscription.subscription_id]
        if not wakes:
            return None
        delivery = make_delivery(
            picture, subscription, content_of(wakes), session.session_id, self.stamp, policy="next_turn"
        )
        until = picture.now + self.rules.outstanding_seconds * SECOND
        told = _replace(delivery, step=Step.TRIGGERED, attempts=1, next_attempt_at=until)
        evidence.record(picture, told, Step.TRIGGERED, {"announced": True, "turn_id": self.turn_id})
        for wake in wakes:
            ringing = _replace(wake, state=WakeState.RINGING, reason=None, until=None, unsure_at=None)
            picture.put_wake(_replace(ringing, delivery_id=delivery.delivery_id, updated_at=picture.now))
        return mark_of(delivery.event_id)

    def _wakes(self, picture: Picture, session: Session) -> list[Wake]:
        mine = []
        for one in self.found:
            wake = picture.wakes.get((one.subscription_id, one.log_id))
            if wake is None or wake.state not in _OPEN or wake.handle != session.handle:
                continue
            elsewhere = wake.addressed and wake.session_id != session.session_id
            if not elsewhere and is_over(wake, evidence.receipt_of(picture, wake), picture.now) is None:
                mine.append(wake)
        return sorted(mine, key=lambda wake: wake.log_id)


def _is_on_its_way(delivery: Delivery, session: Session) -> bool:
    """Is a ring under way into this session?  What waits to be taken up is not."""
    return delivery.session_id == session.session_id and delivery.outcome is None and not is_waiting(delivery)
