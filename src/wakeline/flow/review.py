"""What the world has done to a ring that is under way inside a session: its mail was read, or its session ended.

Whoever plans looks here first, so that nothing keeps a session reserved for a ring that needs none any more.
"""

from __future__ import annotations

import msgspec

from wakeline.core.delivery import Delivery, Outcome, Step, is_postponed
from wakeline.core.instant import SECOND
from wakeline.core.log import HOST_STREAM, UNWANTED
from wakeline.core.parcel import mark_of
from wakeline.core.picture import Picture
from wakeline.core.principal import SYSTEM
from wakeline.core.seat import does_queue
from wakeline.core.session import choose_session
from wakeline.core.subscription import Target
from wakeline.core.wake import WakeState
from wakeline.core.waking import WakeRules, Why
from wakeline.flow import evidence

_replace = msgspec.structs.replace

POSTPONED = 300 * SECOND  # until a replay is looked at again; a bridge that can ring it does so before


def review(picture: Picture, delivery: Delivery, rules: WakeRules) -> None:
    """Only of what nobody is carrying just now: who carries it settles it."""
    if delivery.target != Target.BRIDGE or delivery.lease_owner is not None:
        return
    rung = delivery.step != Step.QUEUED
    if not evidence.is_wanted(picture, delivery):
        finish(picture, delivery) if rung else skip(picture, delivery, Why.READ, WakeState.DROPPED)
    elif delivery.session_id not in picture.sessions or _has_ended(picture, delivery):
        if rung:
            doubt(picture, delivery, "session_ended")
        elif delivery.replay:
            _move(picture, delivery, rules)
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
    if delivery.replay and why is not Why.READ:
        postpone(picture, delivery, why, until)
        return
    evidence.end(picture, delivery, Outcome.SKIPPED, str(why))
    evidence.take_back(picture, delivery, state, None if state is WakeState.WAITING else str(why), until, since)


def postpone(picture: Picture, delivery: Delivery, why: Why, until: int | None = None) -> None:
    """A replay has no wakes that could wait in its place, so it waits itself: its caller was told that it goes out."""
    at = until or picture.now + POSTPONED
    later = _replace(delivery, lease_owner=None, lease_until=None, next_attempt_at=at, reason=str(why))
    if not is_postponed(delivery) or delivery.reason != why:
        evidence.record(picture, later, "postponed", {"reason": str(why)})
    elif (delivery.next_attempt_at or 0) <= picture.now:
        picture.put_delivery(later)  # its bridge looks every few seconds: that is no news


def _move(picture: Picture, replay: Delivery, rules: WakeRules) -> None:
    """Into another session of its receiver, when there is one."""
    mine = [one for one in picture.sessions.values() if one.handle == replay.handle and one.ended_at is None]
    stale = rules.presence_stale_seconds * SECOND
    session = choose_session(mine, None, addressed=False, now=picture.now, stale_after=stale)
    if session is None:
        postpone(picture, replay, Why.NO_SESSION)
        return
    moved = _replace(replay, session_id=session.session_id, reason=None, next_attempt_at=picture.now + POSTPONED)
    evidence.record(picture, moved, Step.QUEUED, {"session_id": session.session_id})
    tell_bridge(picture, moved)


def tell_bridge(picture: Picture, delivery: Delivery) -> None:
    """The doorbell of the bridge that has to ring."""
    session = picture.sessions.get(delivery.session_id or "")
    if session is not None and session.host is not None and delivery.target == Target.BRIDGE:
        data = {"session_id": session.session_id}
        picture.append("delivery.planned", HOST_STREAM + session.host, 0, SYSTEM, delivery.delivery_id, data)


def doubt(picture: Picture, delivery: Delivery, reason: str, detail: str | None = None) -> None:
    """Nobody knows whether it arrived: it may ring once more, but not before its session was seen idle without it."""
    evidence.end(picture, delivery, Outcome.UNKNOWN, reason, None if detail is None else {"detail": detail})
    evidence.give_back(picture, delivery, WakeState.HELD, str(Why.UNSURE), unsure_at=picture.now)
