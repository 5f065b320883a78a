"""What a bridge saw of its sessions: how they are, which of our marks their harness showed, which turns ended.

Evidence moves a delivery's step only forward.  A mark in a prompt settles its delivery: the doorbell is before the
model, and nothing rings again for it, unless its mail stays unread for long, or its turn failed.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from wakeline.core.delivery import LAST, Delivery, Outcome, Step
from wakeline.core.doorbell import tame
from wakeline.core.instant import SECOND
from wakeline.core.observation import LAST_LENGTH, Gone, Injected, Noticed, Observation, Processed, Still, Withdrawn
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.session import REPEATED, Session
from wakeline.core.wake import Wake, WakeState
from wakeline.core.waking import WakeRules, Why, is_over, latest_poke, poke_at
from wakeline.flow import evidence
from wakeline.flow.attend import Attention, finish_session, note_acting, report
from wakeline.flow.plan import Planned, Stamp, plan
from wakeline.flow.tend import admit_bridge

_replace = msgspec.structs.replace

LADDER = tuple(Step)


class Observe(msgspec.Struct, frozen=True):
    """Answers whether it concerned one of the caller's sessions."""

    caller: Caller
    bridge_id: str
    seen: Observation
    found: tuple[tuple[str, str], ...]  # (delivery, subscription) of its marks
    rules: WakeRules
    attention: Attention
    stamp: Stamp
    threads: tuple[str, ...] = ()  # of the mail that those rang for

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.bridges.add(self.caller.host or "")
        needs.sessions.add(self.seen.session_id)
        needs.threads.update(self.threads)
        for delivery_id, subscription_id in self.found:
            needs.deliveries.add(delivery_id)
            evidence.need_plans(needs, [subscription_id])

    def decide(self, picture: Picture) -> bool:
        host = admit_bridge(picture, self.caller, self.bridge_id)
        session = picture.sessions.get(self.seen.session_id)
        if session is None or session.host != host:
            return False
        match self.seen:
            case Noticed():
                return self._notice(picture, session, self.seen)
            case Still():
                return self._repeat(picture, session)
            case Injected():
                self._inject(picture, session, self.seen)
            case Processed():
                self._process(picture, session, self.seen)
            case Withdrawn():
                self._withdraw(picture, session)
            case Gone():
                return self._part(picture, session, self.seen)
            case _:
                assert_never(self.seen)
        return True

    def _notice(self, picture: Picture, before: Session, seen: Noticed) -> bool:
        """A session that has ended comes back by its own word only."""
        if before.ended_at is not None:
            return False
        after = _replace(
            before,
            presence=seen.presence,
            presence_at=picture.now,
            presence_source=seen.source,
            active_turn_id=seen.turn_id,
            heartbeat_at=picture.now,
        )
        picture.put_session(after)
        report(picture, self.caller.handle, before, after, self.attention)
        return True

    def _repeat(self, picture: Picture, before: Session) -> bool:
        """Its own word counts as long as it is fresh; only then is it repeated, which is no sight of the session."""
        if before.ended_at is not None:
            return False
        after = _replace(before, heartbeat_at=picture.now)
        if before.presence_source == REPEATED or picture.now - before.presence_at >= self.attention.stale_after // 2:
            after = _replace(after, presence_at=picture.now, presence_source=REPEATED)
        picture.put_session(after)
        report(picture, self.caller.handle, before, after, self.attention)
        return True

    def _part(self, picture: Picture, session: Session, seen: Gone) -> bool:
        if session.ended_at is not None:
            return False
        finish_session(picture, self.caller.handle, session, seen.reason)
        return True

    # -- the ladder ---------------------------------------------------------------------------------------------------

    def _inject(self, picture: Picture, session: Session, seen: Injected) -> None:
        for delivery in self._deliveries(picture, session):
            if seen.woke:
                climb(picture, delivery.delivery_id, Step.WOKE, {"turn_id": seen.turn_id})
            self._settle(picture, delivery.delivery_id, {"turn_id": seen.turn_id})

    def _process(self, picture: Picture, session: Session, seen: Processed) -> None:
        detail: dict[str, object] = {"turn_id": seen.turn_id, "status": seen.status}
        if seen.last:
            detail[LAST] = tame(seen.last, LAST_LENGTH)
        for delivery in self._deliveries(picture, session):
            self._settle(picture, delivery.delivery_id, {"turn_id": seen.turn_id})
            if seen.status == "interrupted":  # somebody broke it off: that is no end that we could build upon
                evidence.record(picture, picture.deliveries[delivery.delivery_id], "interrupted", detail)
            else:
                climb(picture, delivery.delivery_id, Step.PROCESSED, detail)
            if seen.status == "failed":
                self._hasten(picture, delivery)

    def _withdraw(self, picture: Picture, session: Session) -> None:
        """Its mail was read, which settled it before; this says that it did not wake anybody after that."""
        for delivery in self._deliveries(picture, session):
            evidence.record(picture, delivery, "withdrawn", {"detail": "taken out of the harness's queue"})

    def _deliveries(self, picture: Picture, session: Session) -> list[Delivery]:
        found = [picture.deliveries.get(delivery_id) for delivery_id, _ in self.found]
        return [one for one in found if one is not None and one.session_id == session.session_id]

    def _settle(self, picture: Picture, delivery_id: str, detail: dict[str, object]) -> None:
        """It is before the model: that is what a ring is for."""
        delivery = picture.deliveries[delivery_id]
        if delivery.outcome is None:
            evidence.end(picture, _replace(delivery, step=Step.INJECTED), Outcome.DELIVERED, None, detail)
            evidence.confirm(picture, delivery)
        else:
            climb(picture, delivery_id, Step.INJECTED, detail)
        for wake in _carried(picture, delivery):
            due = poke_at(wake, self.rules, picture.now, failed=False)
            rung = _replace(wake, state=WakeState.RUNG, reason=None, until=None, unsure_at=None, poke_at=due)
            picture.put_wake(_replace(rung, updated_at=picture.now))
            if (
                wake.thread_id is not None
            ):  # who has it before its model deals with it: what comes after is for that one
                note_acting(picture, wake.thread_id, wake.handle, delivery.session_id)
        plan(picture, delivery.subscription_id, self.rules, self.stamp)

    def _hasten(self, picture: Picture, delivery: Delivery) -> None:
        """The turn failed, so its model may have seen nothing: what is unread need not wait as long as after others."""
        for wake in list(picture.wakes.values()):
            if wake.delivery_id == delivery.delivery_id and wake.state == WakeState.RUNG and wake.poke_at is not None:
                picture.put_wake(_replace(wake, poke_at=poke_at(wake, self.rules, picture.now, failed=True)))


def _carried(picture: Picture, delivery: Delivery) -> list[Wake]:
    """Its wakes: those that ring with it, and those that nobody was sure of until now."""
    return [
        wake
        for wake in picture.wakes.values()
        if wake.delivery_id == delivery.delivery_id
        and (wake.state == WakeState.RINGING or (wake.state, wake.reason) == (WakeState.HELD, Why.UNSURE))
    ]


def climb(picture: Picture, delivery_id: str, step: Step, detail: dict[str, object]) -> None:
    """One step up, with its evidence; what was reached before stays reached."""
    delivery = picture.deliveries[delivery_id]
    if LADDER.index(step) > LADDER.index(Step(delivery.step)):
        evidence.record(picture, _replace(delivery, step=step), step, detail)


class Replied(msgspec.Struct, frozen=True):
    """The receivers of these have answered through us."""

    workspace_id: int
    found: tuple[tuple[str, str], ...]  # (delivery, the answer's message id)

    def needs(self, needs: Needs) -> None:
        needs.deliveries.update(delivery_id for delivery_id, _ in self.found)

    def decide(self, picture: Picture) -> None:
        for delivery_id, message_id in self.found:
            if delivery_id in picture.deliveries:
                climb(picture, delivery_id, Step.REPLIED, {"message_id": message_id})


class Poke(msgspec.Struct, frozen=True):
    """Look at what was rung a while ago: what is still unread rings again, a few times at most."""

    workspace_id: int
    found: tuple[tuple[str, int], ...]  # (subscription, log_id) of wakes
    deliveries: tuple[str, ...]  # that carried them
    rules: WakeRules
    stamp: Stamp

    def needs(self, needs: Needs) -> None:
        needs.deliveries.update(self.deliveries)
        evidence.need_plans(needs, {subscription_id for subscription_id, _ in self.found})

    def decide(self, picture: Picture) -> list[Planned]:
        for key in self.found:
            wake = picture.wakes.get(key)
            if wake is not None and wake.state == WakeState.RUNG and wake.poke_at is not None:
                self._look(picture, wake)
        theirs = dict.fromkeys(subscription_id for subscription_id, _ in self.found)
        planned = [plan(picture, one, self.rules, self.stamp) for one in theirs]
        return [one for one in planned if one is not None]

    def _look(self, picture: Picture, wake: Wake) -> None:
        """What was read meanwhile is done; what was not waits for the planner, as if it were new."""
        if (wake.poke_at or 0) > latest_poke(self.rules, picture.now):  # of a clock that was set back: wait from now on
            picture.put_wake(_replace(wake, poke_at=picture.now + self.rules.repoke_seconds * SECOND))
            return
        receipt = evidence.receipt_of(picture, wake)
        unread = receipt is not None and is_over(wake, receipt, picture.now) is None
        state = WakeState.WAITING if unread else WakeState.RUNG
        picture.put_wake(_replace(wake, state=state, poke_at=None, updated_at=picture.now))
