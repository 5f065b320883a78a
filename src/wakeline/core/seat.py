"""The session that a wake would be brought to, and what the decision must know of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from wakeline.core.bridge import Bridge, is_attended
from wakeline.core.delivery import Delivery, is_postponed
from wakeline.core.instant import SECOND
from wakeline.core.session import (
    REPEATED,
    Presence,
    Session,
    choose_session,
    exceeds_context,
    is_beating,
    presence_of,
)
from wakeline.core.wake import Wake
from wakeline.core.waking import Seat, WakeRules, Why

_levels = msgspec.json.Decoder(dict[str, str]).decode
_words = msgspec.json.Decoder(list[str]).decode

IDLE_WAKE = "D4"
QUEUES = "queue_when_active"
KEYSTROKES = "keystrokes"  # its human has let us type into it, which proves nothing
COMMAND = "operator_command"  # its human gave a command that rings in it
CHOSEN = {"tmux": KEYSTROKES, "command": COMMAND}  # by transport: what such a session says


def take_seat(
    wake: Wake,
    sessions: list[Session],
    deliveries: Iterable[Delivery],
    bridges: Mapping[str, Bridge],
    rules: WakeRules,
    now: int,
) -> Seat | None:
    stale = rules.presence_stale_seconds * SECOND
    session = choose_session(sessions, wake.session_id, bool(wake.addressed), now, stale)
    if session is None:
        return None
    if wake.reason == Why.NO_CONNECTION and not wake.addressed and wake.session_id == session.session_id:
        session = stand_in(session, sessions, bridges, rules, now) or session
    return Seat(
        session.session_id,
        presence_of(session, now, stale),
        proven=may_ring(session),
        queues=does_queue(session),
        context_full=exceeds_context(session, rules.context_gate_tokens),
        outstanding_until=_outstanding(session.session_id, deliveries, rules, now),
        bridged=is_attended(bridges.get(session.host or ""), now),
        seen_at=0 if session.presence_source == REPEATED else session.presence_at,
    )


def stand_in(
    absent: Session, sessions: Iterable[Session], bridges: Mapping[str, Bridge], rules: WakeRules, now: int
) -> Session | None:
    """Who is woken when nobody is there in this session: the newest idle one of its agent that was heard of later.

    Later, so that two sessions that are both gone never pass a wake to and fro between them.  Nobody, as long as the
    companions of its host may still be on their way to a bridge that has just begun.
    """
    bridge = bridges.get(absent.host or "")
    if bridge is not None and now - bridge.started_at < rules.lease_seconds * SECOND:
        return None
    stale = rules.presence_stale_seconds * SECOND
    idle = (
        one
        for one in sessions
        if (one.handle, one.ended_at) == (absent.handle, None)
        and one.heartbeat_at > absent.heartbeat_at
        and is_beating(one, now, stale)
        and presence_of(one, now, stale) is Presence.IDLE
        and may_ring(one)
        and is_attended(bridges.get(one.host or ""), now)
    )
    return max(idle, key=lambda one: (one.started_at, one.session_id), default=None)


def does_queue(session: Session) -> bool:
    return QUEUES in _words(session.capabilities)


def may_ring(session: Session) -> bool:
    """By a proven way, or by one that nobody has proven and that its human chose for this session or agent.

    That a human chose it is the session's own word here.  Whoever rings looks for the human's: a mark on the pane, an
    entry in the operator's file.
    """
    return is_proven(session) or CHOSEN.get(session.transport or "") in _words(session.capabilities)


def is_proven(session: Session) -> bool:
    """Has an idle wake been proven for this session's harness and version?"""
    return _levels(session.levels).get(IDLE_WAKE) == "pass"


def _outstanding(session_id: str, deliveries: Iterable[Delivery], rules: WakeRules, now: int) -> int | None:
    """Until when a wake that is under way keeps others away from this session."""
    ends = [
        delivery.created_at + rules.outstanding_seconds * SECOND
        for delivery in deliveries
        if delivery.session_id == session_id and delivery.outcome is None and not is_postponed(delivery)
    ]
    return max((end for end in ends if end > now), default=None)
