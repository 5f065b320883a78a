"""Bring out again: everything since a position that a subscription asks for, or one delivery that did not arrive."""

from __future__ import annotations

import msgspec

from wakeline.core import policy
from wakeline.core.delivery import Delivery, Outcome
from wakeline.core.event import Content
from wakeline.core.log import PRINCIPAL_STREAM
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.session import choose_session
from wakeline.core.subscription import Subscription, SubscriptionStatus, Target
from wakeline.core.wake import WakeState
from wakeline.errors import Conflict, NotFound
from wakeline.flow.amend import may_manage, require_plain, unknown
from wakeline.flow.plan import Stamp, make_delivery, repeat
from wakeline.flow.review import tell_bridge

_replace = msgspec.structs.replace


def owned(picture: Picture, caller: Caller, subscription_id: str) -> Subscription:
    """The caller's own subscription; anybody else's is as good as not there, except for a human."""
    row = picture.subscriptions.get(subscription_id)
    if row is None or not may_manage(caller, row) or row.status == SubscriptionStatus.RETIRED:
        raise unknown(subscription_id)
    return row


class Resync(msgspec.Struct, frozen=True):
    """Replay what was found, as one delivery with a new event id and the same log id.  Answers its id."""

    caller: Caller
    subscription_id: str
    content: Content | None  # None: nothing was found
    stamp: Stamp
    stale_after: int = 300_000_000  # of a session's heartbeat

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.subscriptions.add(self.subscription_id)
        needs.plans.add(self.subscription_id)
        needs.seats.add(self.subscription_id)

    def decide(self, picture: Picture) -> str | None:
        policy.admit(picture, self.caller)
        subscription = owned(picture, self.caller, self.subscription_id)
        require_plain(subscription)
        if subscription.target in (Target.DISABLED, Target.NONE):
            raise Conflict("NO_ROUTE", "This subscription has no route to replay through.")
        if subscription.status == SubscriptionStatus.DEGRADED:
            raise Conflict("SUBSCRIPTION_DEGRADED", f"It is degraded: {subscription.status_reason}")
        if self.content is None:
            return None
        session_id = self._session(picture, subscription) if subscription.target == Target.BRIDGE else None
        delivery = make_delivery(picture, subscription, self.content, session_id, self.stamp, replay=True)
        stream = PRINCIPAL_STREAM + subscription.handle
        data = {"events": self.content.events, "delivery_id": delivery.delivery_id}
        picture.append("subscription.resynced", stream, 0, self.caller.handle, self.subscription_id, data)
        return delivery.delivery_id

    def _session(self, picture: Picture, subscription: Subscription) -> str:
        mine = [one for one in picture.sessions.values() if one.handle == subscription.handle and one.ended_at is None]
        session = choose_session(mine, None, addressed=False, now=picture.now, stale_after=self.stale_after)
        if session is None:
            raise Conflict("NO_ROUTE", f"{subscription.handle} has no live session to ring in.", "Start one first.")
        return session.session_id


class Retry(msgspec.Struct, frozen=True):
    """Send a delivery again that did not arrive: a new delivery of the same event, byte by byte."""

    caller: Caller
    delivery_id: str
    stamp: Stamp
    session_id: str | None = None  # the delivery's, as the reader found it

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.deliveries.add(self.delivery_id)
        if self.session_id is not None:
            needs.sessions.add(self.session_id)

    def decide(self, picture: Picture) -> Delivery:
        policy.admit(picture, self.caller)
        before = self._before(picture)
        owned(picture, self.caller, before.subscription_id)
        detail: dict[str, object] = {"retry_of": before.delivery_id, "by": self.caller.handle}
        again = repeat(picture, before, self.stamp, detail)
        self._take_along(picture, before, again)
        tell_bridge(picture, again)
        stream = PRINCIPAL_STREAM + before.handle
        data = {"retry_of": before.delivery_id}
        picture.append("delivery.retried", stream, 0, self.caller.handle, again.delivery_id, data)
        return again

    def _before(self, picture: Picture) -> Delivery:
        before = picture.deliveries.get(self.delivery_id)
        visible = before is not None and (before.handle == self.caller.handle or self.caller.reads_everything)
        if before is None or not visible:
            raise NotFound("DELIVERY_NOT_FOUND", f"There is no delivery {self.delivery_id}.")
        if before.outcome in (None, Outcome.DELIVERED):
            raise Conflict("NOT_RETRYABLE", f"The delivery is {before.outcome or 'still under way'}.")
        return before

    def _take_along(self, picture: Picture, before: Delivery, again: Delivery) -> None:
        """Its wakes that still wait ring with it, not once more beside it."""
        for wake in list(picture.wakes.values()):
            if wake.delivery_id == before.delivery_id and wake.state == WakeState.HELD:
                ringing = _replace(wake, state=WakeState.RINGING, reason=None, until=None, updated_at=picture.now)
                picture.put_wake(_replace(ringing, delivery_id=again.delivery_id, unsure_at=None))
