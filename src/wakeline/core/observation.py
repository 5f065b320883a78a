"""What an adapter saw of a session, beside what came of its own rings.

An observation is evidence, not a decision: the server compares it with what it knows and moves a delivery's step only
forward.  It may come twice or late.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from wakeline.core.session import Presence

TurnStatus = Literal["completed", "failed", "interrupted"]
LAST_LENGTH = 500  # how much of an answer is kept
LAST_SENT = 1_000  # and how much of it is told


class Noticed(msgspec.Struct, frozen=True, tag_field="type", tag="noticed"):
    """How the session is: it changed, or it was seen to be so still.  Either is a sign of life."""

    session_id: str
    presence: Presence
    turn_id: str | None = None
    source: str = "bridge"


class Still(msgspec.Struct, frozen=True, tag_field="type", tag="still"):
    """Nobody can see how the session is, and nothing says that it ended: it counts for what it last said of itself."""

    session_id: str


class Injected(msgspec.Struct, frozen=True, tag_field="type", tag="injected"):
    """The harness showed our marks in a prompt: those doorbells are in the model's context."""

    session_id: str
    marks: tuple[str, ...]
    turn_id: str | None = None
    woke: bool = False  # the turn began because of them, in a session that was idle


class Processed(msgspec.Struct, frozen=True, tag_field="type", tag="processed"):
    """The turn that held these marks ended.  `last`: what the model said last, as far as its harness tells."""

    session_id: str
    marks: tuple[str, ...]
    turn_id: str | None = None
    status: TurnStatus = "completed"
    last: str = ""


class Withdrawn(msgspec.Struct, frozen=True, tag_field="type", tag="withdrawn"):
    """Doorbells that still waited in the harness's queue were taken out of it: no turn will begin with them."""

    session_id: str
    marks: tuple[str, ...]


class Gone(msgspec.Struct, frozen=True, tag_field="type", tag="gone"):
    """The session ended or cannot be found any more."""

    session_id: str
    reason: str


Observation = Noticed | Still | Injected | Processed | Withdrawn | Gone
