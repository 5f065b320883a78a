"""A wake: one matched event of one subscription, from the match until it is rung or needs no ring any more."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class WakeState(StrEnum):
    WAITING = "waiting"  # for the planner
    HELD = "held"  # the reason and, if known, the end of the hold stand beside it
    NEXT_TURN = "next_turn"  # for the receiver's next turn
    RINGING = "ringing"  # part of a delivery that is under way
    RUNG = "rung"
    DROPPED = "dropped"  # needs no ring any more; the reason says why


PLANNED = frozenset({WakeState.WAITING, WakeState.HELD})  # what every round of planning looks at again


class Wake(msgspec.Struct, frozen=True, array_like=True, gc=False):
    subscription_id: str
    log_id: int
    workspace_id: int
    handle: str
    session_id: str | None  # the session that was addressed, else the one that last acted in the thread
    addressed: int
    event_type: str
    policy: str
    message_id: str | None
    thread_id: str | None
    seq: int | None
    payload: str  # JSON, as it will be sent
    occurred_at: int
    state: str
    reason: str | None
    until: int | None
    delivery_id: str | None
    updated_at: int
    rings: int = 0  # how often it was part of a ring inside a session
    poke_at: int | None = None  # when to look whether it is still unread although it was rung
    unsure_at: int | None = None  # since when nobody knows whether its ring arrived
