"""The lines of the seat protocol, as a companion writes and reads them: JSON objects, tagged by `type`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

PROTOCOL = 1
LONGEST = 1 << 20  # bytes of a line
SHOWN = 2_000  # how many characters of a prompt or an answer are passed on

TurnStatus = Literal["completed", "failed", "interrupted"]
RungResult = Literal["accepted", "refused", "failed", "unknown"]


class Line(msgspec.Struct, frozen=True, tag_field="type", kw_only=True):
    pass


# -- from the companion -----------------------------------------------------------------------------------------------


class Hello(Line, frozen=True, tag="hello"):
    token: str
    harness: str
    native_id: str
    wake_mode: str
    transport: str
    protocol: int = PROTOCOL
    version: str | None = None
    pid: int | None = None
    cwd: str | None = None
    capabilities: tuple[str, ...] = ()
    resumable: bool = False
    presence: str = "unknown"


class Told(Line, frozen=True, tag="presence"):
    presence: str
    turn_id: str | None = None


class Renamed(Line, frozen=True, tag="renamed"):
    native_id: str


class TurnStarted(Line, frozen=True, tag="turn_started"):
    turn_id: str | None
    text: str


class Injected(Line, frozen=True, tag="injected"):
    marks: tuple[str, ...]
    turn_id: str | None = None


class TurnEnded(Line, frozen=True, tag="turn_ended"):
    turn_id: str | None
    status: TurnStatus
    last: str = ""


class Rung(Line, frozen=True, tag="rung"):
    id: str
    result: RungResult
    reason: str | None = None
    detail: str | None = None


# -- from the bridge --------------------------------------------------------------------------------------------------


class Welcome(Line, frozen=True, tag="welcome"):
    session_id: str
    handle: str
    doorbell: str | None = None


class Refused(Line, frozen=True, tag="refused"):
    error: dict[str, Any] = msgspec.field(default_factory=dict)


class Announce(Line, frozen=True, tag="announce"):
    text: str | None = None
    marks: tuple[str, ...] = ()


class Ring(Line, frozen=True, tag="ring"):
    id: str
    mark: str
    text: str
    policy: str = "immediate"


Heard = Welcome | Refused | Announce | Ring

encode = msgspec.json.Encoder().encode
_decoder: msgspec.json.Decoder[Heard] = msgspec.json.Decoder(Heard)


def read(line: bytes) -> Heard | None:
    """What the bridge said; a line of a kind that we do not know is none."""
    try:
        return _decoder.decode(line)
    except msgspec.MsgspecError:
        return None
