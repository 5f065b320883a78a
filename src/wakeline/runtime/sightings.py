"""What adapters saw, on its way to the server: in order, and tried again while the server is away."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec

from wakeline import wire
from wakeline.core.instant import from_datetime
from wakeline.core.observation import Gone, Injected, Noticed, Observation, Processed, Still, Withdrawn
from wakeline.core.session import Session
from wakeline.errors import Unavailable, WakelineError
from wakeline.runtime.lines import Line

MOST = 10_000
AT_ONCE = 50
_WORDS = {
    Noticed: "noticed",
    Still: "still",
    Injected: "injected",
    Processed: "processed",
    Withdrawn: "withdrawn",
    Gone: "gone",
}
_encode = msgspec.json.Encoder().encode


class Sightings:
    def __init__(self) -> None:
        self._waiting: deque[Observation] = deque(maxlen=MOST)  # of a server that stays away, the oldest are forgotten
        self._ready = asyncio.Event()

    async def put(self, seen: Observation) -> None:
        self._waiting.append(seen)
        self._ready.set()

    async def send(self, line: Line) -> None:
        """Wait for some, and send them.  What was refused is dropped: it would be refused again."""
        await self._ready.wait()
        while self._waiting:
            some = [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]
            try:
                await line.report([to_wire(one) for one in some])
            except Unavailable:
                self._waiting.extendleft(reversed(some))
                raise
            except WakelineError as error:
                if error.code == "BRIDGE_NOT_ATTENDING":
                    self._waiting.extendleft(reversed(some))
                raise
        self._ready.clear()


def to_wire(seen: Observation) -> wire.ObservationSaid:
    fields = msgspec.structs.asdict(seen)
    return msgspec.convert({"type": _WORDS[type(seen)], **fields}, wire.ObservationSaid)


def to_session(view: wire.SessionView) -> Session:
    """A session as adapters know it.  Which workspace it is in is nothing to them."""
    fields = {name: getattr(view, name) for name in Session.__struct_fields__ if hasattr(view, name)}
    instants = {name: from_datetime(at) for name in _INSTANTS if (at := getattr(view, name)) is not None}
    fields |= instants
    fields |= {
        "workspace_id": 0,
        "capabilities": _encode(view.capabilities).decode(),
        "levels": _encode(view.levels).decode(),
        "replyable": int(view.replyable),
        "resumable": int(view.resumable),
        "heartbeat_at": from_datetime(view.last_seen_at),
    }
    return Session(**fields)


_INSTANTS = ("pid_started_at", "presence_at", "started_at", "ended_at")
