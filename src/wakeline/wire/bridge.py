"""What bridges say and hear: the lease on their host, rings to bring out, what came of them, what they saw."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from wakeline.wire.common import Answer, Id, Request, SessionId
from wakeline.wire.sessions import Presence, SessionView, Text, Word

BridgeId = Annotated[str, Meta(pattern=r"^[0-9A-Za-z._-]{8,64}$(?!\n)", examples=["01JD3Z8Q0W4T6N9X2C5V7B1M3K"])]
Fence = Annotated[int, Meta(ge=0, le=2**53)]
Detail = Annotated[str, Meta(max_length=2_048)]
Why = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$(?!\n)", examples=["timeout"])]
Mark = Annotated[str, Meta(pattern=r"^wl-[0-9A-Za-z]{26}$(?!\n)", examples=["wl-01JD3Z8Q0W4T6N9X2C5V7B1M3K"])]
Marks = Annotated[list[Mark], Meta(max_length=100)]
RingResult = Literal["accepted", "refused", "failed", "unknown", "absent"]
ObservationType = Literal["noticed", "still", "injected", "processed", "withdrawn", "gone"]


class AttendBridge(Request, frozen=True):
    """`started`: it begins now, and knows nothing of what it was carrying before."""

    bridge_id: BridgeId
    version: Text
    transports: Annotated[list[Word], Meta(max_length=64)] = []
    started: bool = False


class BridgeAttended(Answer, frozen=True):
    host: str
    workspace: str
    lease_seconds: int
    ring_seconds: int  # how long a claimed ring may take to be settled
    position: str  # where the log ends now: what the doorbell is followed from


class LeaveBridge(Request, frozen=True):
    bridge_id: BridgeId


class BridgeLeft(Answer, frozen=True):
    host: str


class ClaimRings(Request, frozen=True):
    bridge_id: BridgeId
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class RingView(Answer, frozen=True):
    """One ring, claimed.  `text` is what to put before the model; it holds the mark."""

    delivery_id: str
    subscription_id: str
    event_id: str
    fence: int
    attempt: int
    mark: str
    text: str
    body: str
    session: SessionView


class Rings(Answer, frozen=True):
    rings: list[RingView]


class SettleRing(Request, frozen=True):
    bridge_id: BridgeId
    delivery_id: Id
    fence: Fence
    result: RingResult
    reason: Why | None = None
    detail: Detail | None = None


class RingSettled(Answer, frozen=True):
    """`stale`: it was not the caller's any more, and nothing was changed."""

    delivery_id: str
    stale: bool
    step: str
    outcome: str | None


class ObservationSaid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: ObservationType
    session_id: SessionId
    presence: Presence | None = None
    turn_id: Text | None = None
    source: Word | None = None
    marks: Marks = []
    woke: bool = False
    status: Literal["completed", "failed", "interrupted"] = "completed"
    last: Annotated[str, Meta(max_length=1000)] = ""
    reason: Text | None = None


class ReportObservations(Request, frozen=True):
    bridge_id: BridgeId
    observations: Annotated[list[ObservationSaid], Meta(min_length=1, max_length=100)]


class Reported(Answer, frozen=True):
    """How many of them concerned sessions of this host that have not ended."""

    taken: int


class AnnounceTurn(Request, frozen=True):
    """A session begins a turn.  `shown`: our marks that its prompt holds."""

    bridge_id: BridgeId
    session_id: SessionId
    turn_id: Text | None = None
    shown: Marks = []


class Announced(Answer, frozen=True):
    text: str | None
    marks: list[str]
