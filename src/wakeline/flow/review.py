"""What the world has done to a ring that is under way inside a session: its mail was read, or its session ended.

Whoever plans looks here first, so that nothing keeps a session reserved for a ring that needs none any more.
"""

from __future__ import annotations

from wakeline.core.delivery import Delivery, Outcome, Step
from wakeline.core.log import HOST_STREAM, UNWANTED
from wakeline.core.parcel import mark_of
from wakeline.core.picture import Picture
from wakeline.core.principal import SYSTEM
from wakeline.core.seat import does_queue
from wakeline.core.subscription import Target
from wakeline.core.wake import WakeState
from wakeline.core.waking import Why
from wakeline.flow import evidence


def review(picture: Picture, delivery: Delivery) -> None:
    """Only of what nobody is carrying just now: who carries it settles it."""
    if delivery.target != Target.BRIDGE or delivery.lease_owner is not None:
        return
    rung = delivery.step != Step.QUEUED
    if not evidence.is_wanted(picture, delivery):
        finish(picture, delivery) if rung else skip(picture, delivery, Why.READ, WakeState.DROPPED)
    elif delivery.session_id not in picture.sessions or _has_ended(picture, delivery):
        if rung:
            doubt(picture, delivery, "session_ended")
        else:
            skip(picture, delivery, Why.NO_SESSION, WakeState.WAITING)


def _has_ended(picture: Picture, delivery: Delivery) -> bool:
    return picture.sessions[delivery.session_id or ""].ended_at is not None


def finish(picture: Picture, delivery: Delivery) -> None:
    """The receiver has read its mail: whatever else is known, the ring has done its work."""
    evidence.end(picture, delivery, Outcome.DELIVERED, str(Why.READ))
    evidence.give_back(picture, delivery, WakeState.RUNG, str(Why.READ))
    evidence.confirm(picture, delivery)
    _call_off(picture, delivery)


def _call_off(picture: Picture, delivery: Delivery) -> None:
    """Its doorbell may still wait in the harness's queue: the bridge is told that nobody need be woken by it."""
    session = picture.sessions.get(delivery.session_id or "")
    if session is not None and session.host is not None and does_queue(session):
        data = {"session_id": session.session_id, "mark": mark_of(delivery.event_id)}
        picture.append(UNWANTED, HOST_STREAM + session.host, 0, SYSTEM, delivery.delivery_id, data)


def skip(
    picture: Picture,
    delivery: Delivery,
    why: Why,
    state: WakeState,
    until: int | None = None,
    since: int | None = None,
) -> None:
    """Nothing was rung."""
    evidence.end(picture, delivery, Outcome.SKIPPED, str(why))
    evidence.take_back(picture, delivery, state, None if state is WakeState.WAITING else str(why), until, since)


def doubt(picture: Picture, delivery: Delivery, reason: str, detail: str | None = None) -> None:
    """Nobody knows whether it arrived: it may ring once more, but not before its session was seen idle without it."""
    evidence.end(picture, delivery, Outcome.UNKNOWN, reason, None if detail is None else {"detail": detail})
    evidence.give_back(picture, delivery, WakeState.HELD, str(Why.UNSURE), unsure_at=picture.now)
