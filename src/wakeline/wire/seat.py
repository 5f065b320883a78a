"""The seat protocol: what a companion inside a harness and the bridge of its host say to each other.

One JSON object a line over the bridge's Unix socket, at most a mebibyte each.  Unknown fields and types are ignored on
both sides, so either may learn more without the other.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from wakeline.wire.common import Tag
from wakeline.wire.sessions import Count, Path, Presence, ProcessId, Text, WakeMode, Word

PROTOCOL = 1
LINE_BYTES = 1_048_576

TurnStatus = Literal["completed", "failed", "interrupted"]
Rang = Literal["accepted", "refused", "failed", "unknown"]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Any line: its type says which one it is."""

    type: str


# -- from the companion -----------------------------------------------------------------------------------------------


class Hello(Line, frozen=True, kw_only=True):
    """The first line: who the session is, and the agent's own token, which proves whose it is.

    `visit`: it comes only to say something of a session that is reached another way, as a hook's command does.  When it
    goes, the session does not end.
    """

    protocol: int
    token: str
    harness: Word
    native_id: Text | None = None
    version: Text | None = None
    transport: Word | None = None
    wake_mode: WakeMode = "socket"
    pid: ProcessId | None = None
    cwd: Path | None = None
    capabilities: Annotated[list[Tag], Meta(max_length=32)] = []
    resumable: bool = False
    presence: Presence = "unknown"
    visit: bool = False
    type: str = "hello"


class PresenceSaid(Line, frozen=True, kw_only=True):
    presence: Presence
    turn_id: Text | None = None
    type: str = "presence"


class Renamed(Line, frozen=True, kw_only=True):
    """The harness calls the same session by another id from now on."""

    native_id: Text
    type: str = "renamed"


class TurnStarted(Line, frozen=True, kw_only=True):
    """`text`: the prompt as the harness shows it.  Answered by `announce`."""

    turn_id: Text | None = None
    text: str = ""
    type: str = "turn_started"


class InjectedSaid(Line, frozen=True, kw_only=True):
    marks: list[str] = []
    turn_id: Text | None = None
    type: str = "injected"


class TurnEnded(Line, frozen=True, kw_only=True):
    turn_id: Text | None = None
    status: TurnStatus = "completed"
    last: str = ""
    type: str = "turn_ended"


class ContextSaid(Line, frozen=True, kw_only=True):
    tokens: Count
    limit: Count | None = None
    type: str = "context"


class Rung(Line, frozen=True, kw_only=True):
    """What came of a ring."""

    id: str
    result: Rang
    reason: str | None = None
    detail: str | None = None
    type: str = "rung"


class Withdrawn(Line, frozen=True, kw_only=True):
    """The answer to `withdraw`.  `kept`: it still waited here, and will not ring."""

    mark: str
    kept: bool
    type: str = "withdrawn"


# -- from the bridge --------------------------------------------------------------------------------------------------


class Welcome(Line, frozen=True, kw_only=True):
    session_id: str
    handle: str
    doorbell: str | None = None
    type: str = "welcome"


class RefusedSeat(Line, frozen=True, kw_only=True):
    error: dict[str, str]
    type: str = "refused"


class RingSaid(Line, frozen=True, kw_only=True):
    """Put `text` before the model.  Answered by `rung`."""

    id: str
    mark: str
    text: str
    presence_at_plan: str = "unknown"
    type: str = "ring"


class Withdraw(Line, frozen=True, kw_only=True):
    """The mail of this doorbell was read: let it go if it still waits.  Answered by `withdrawn`."""

    mark: str
    type: str = "withdraw"


class AnnounceSaid(Line, frozen=True, kw_only=True):
    """What to add to the turn that begins, through the harness's own hook; null: nothing."""

    text: str | None = None
    marks: list[str] = []
    turn_id: str | None = None
    type: str = "announce"
