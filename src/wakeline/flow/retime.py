"""Stage 6, sweep: give deliveries a time again whose time a clock that was ahead has written.

A wait has a longest length.  What lies further ahead was written before the clock was set back, and would wait for as
long as the clock was wrong, with everything behind it.  What waits for its next attempt gets it now.  What somebody
holds is not taken from them, because they may be at work: their lease just ends as if it had begun now.
"""

from __future__ import annotations

import msgspec

from wakeline.core.delivery import Delivery, Step
from wakeline.core.instant import SECOND
from wakeline.core.picture import Needs, Picture
from wakeline.core.wake import WakeState
from wakeline.core.waking import WakeRules, Why
from wakeline.flow import evidence
from wakeline.flow.deliver import LONGEST_PAUSE
from wakeline.flow.review import skip
from wakeline.flow.ring import is_waiting

_replace = msgspec.structs.replace


def latest(rules: WakeRules, now: int) -> int:
    """No delivery of a clock that was never set back waits for longer than until then."""
    longest = max(LONGEST_PAUSE.total_seconds(), rules.outstanding_seconds, rules.lease_seconds)
    return now + int(longest) * SECOND


class Retime(msgspec.Struct, frozen=True):
    workspace_id: int
    delivery_ids: tuple[str, ...]
    rules: WakeRules

    def needs(self, needs: Needs) -> None:
        needs.deliveries.update(self.delivery_ids)

    def decide(self, picture: Picture) -> None:
        for delivery_id in self.delivery_ids:
            delivery = picture.deliveries.get(delivery_id)
            if delivery is not None and (delivery.next_attempt_at or 0) > latest(self.rules, picture.now):
                self._put_right(picture, delivery)

    def _put_right(self, picture: Picture, delivery: Delivery) -> None:
        if is_waiting(delivery):  # no bridge has it, so nothing was rung: it is planned anew, with times that are right
            skip(picture, delivery, Why.NO_BRIDGE, WakeState.WAITING)
            evidence.look_again(picture, delivery.subscription_id)
            return
        at = picture.now + self._wait(delivery) * SECOND
        until = None if delivery.lease_until is None else at
        row = _replace(delivery, next_attempt_at=at, lease_until=until)
        evidence.record(picture, row, "clock_set_back", {"next_attempt_at": at})

    def _wait(self, delivery: Delivery) -> int:
        if delivery.lease_owner is not None:
            return self.rules.lease_seconds
        return 0 if delivery.step == Step.QUEUED else self.rules.outstanding_seconds
