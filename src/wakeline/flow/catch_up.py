"""Mail that came before there was a way to wake its receiver rings as soon as there is one.

An agent's first session that can be woken brings a route; until then nothing matched its mail, or an MCP connection was
told of it, which wakes nobody.  What was rung inside a session already is left alone.
"""

from __future__ import annotations

import msgspec

from wakeline.core.message import WakePolicy
from wakeline.core.picture import Needs, Picture
from wakeline.core.subscription import SubscriptionStatus, Target
from wakeline.core.wake import WakeState
from wakeline.flow.match import Found, new_wake

_replace = msgspec.structs.replace


class CatchUp(msgspec.Struct, frozen=True):
    """Queue what is unread for a subscription that rings inside sessions.  Answers how much of it was not rung yet."""

    workspace_id: int
    subscription_id: str
    found: tuple[Found, ...]

    def needs(self, needs: Needs) -> None:
        needs.subscriptions.add(self.subscription_id)
        needs.wakes.update((self.subscription_id, event.log_id) for event in self.found)

    def decide(self, picture: Picture) -> int:
        row = picture.subscriptions.get(self.subscription_id)
        if row is None or row.status != SubscriptionStatus.ACTIVE or row.target != Target.BRIDGE:
            return 0
        queued = sum(self._queue(picture, event) for event in self.found)
        if queued:
            first = row.first_queued_at or picture.now
            picture.move_subscription_tail(
                _replace(row, events=row.events + queued, first_queued_at=first, flush_at=picture.now)
            )
        return queued

    def _queue(self, picture: Picture, event: Found) -> bool:
        before = picture.wakes.get((event.subscription_id, event.log_id))
        if event.policy != WakePolicy.IMMEDIATE:
            return False  # the next turn tells of it
        if before is None:
            picture.put_wake(new_wake(picture, event, event.policy))
        elif before.state == WakeState.RUNG and before.rings == 0:
            picture.put_wake(_replace(before, state=WakeState.WAITING, delivery_id=None, updated_at=picture.now))
        else:
            return False
        return True
