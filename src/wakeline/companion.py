"""A companion in Python: it holds one session's seat at the bridge of its host.

It is the reference of the seat protocol, and what tests use in place of a harness.  `on_ring` puts a doorbell before
the model and says what came of it; everything else is told by calls.

    async with Companion(path, token, harness="mine", native_id="1", on_ring=ring) as companion:
        await companion.say_presence("idle")
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Self

import msgspec

from wakeline.errors import Unavailable, WakelineError
from wakeline.wire import seat as said

Rung = tuple[said.Rang, str | None]  # the result and its reason
OnRing = Callable[[said.RingSaid], Awaitable[Rung | None]]  # None: say nothing, as one that hangs

_encode = msgspec.json.Encoder().encode
_line = msgspec.json.Decoder(said.Line).decode
_ring = msgspec.json.Decoder(said.RingSaid).decode
_announce = msgspec.json.Decoder(said.AnnounceSaid).decode


class Companion:
    """`hello` is what else the first line says; see `wakeline.wire.seat.Hello`."""

    def __init__(self, path: str, token: str, *, on_ring: OnRing, harness: str = "reference", **hello: Any) -> None:
        self._path = path
        self._hello = {"type": "hello", "protocol": said.PROTOCOL, "token": token, "harness": harness, **hello}
        self._on_ring = on_ring
        self._announced: deque[asyncio.Future[said.AnnounceSaid]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writer: asyncio.StreamWriter | None = None
        self.welcome: said.Welcome | None = None
        self.connected = False

    @property
    def session_id(self) -> str:
        return "" if self.welcome is None else self.welcome.session_id

    async def __aenter__(self) -> Self:
        reader, self._writer = await asyncio.open_unix_connection(self._path, limit=said.LINE_BYTES)
        await self._say(self._hello)
        first = await reader.readline()
        if not first or _line(first).type != "welcome":
            self._writer.close()
            raise _refusal(msgspec.json.decode(first, type=said.RefusedSeat).error if first else {})
        self.welcome = msgspec.json.decode(first, type=said.Welcome)
        self.connected = True
        self._start(self._listen(reader))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- telling ------------------------------------------------------------------------------------------------------

    async def say_presence(self, presence: str, turn_id: str | None = None) -> None:
        await self._say({"type": "presence", "presence": presence, "turn_id": turn_id})

    async def say_renamed(self, native_id: str) -> None:
        await self._say({"type": "renamed", "native_id": native_id})

    async def say_injected(self, marks: list[str], turn_id: str | None = None) -> None:
        await self._say({"type": "injected", "marks": marks, "turn_id": turn_id})

    async def start_turn(self, text: str, turn_id: str | None = None) -> said.AnnounceSaid:
        """A turn begins with this prompt; hear what to add to it."""
        answer: asyncio.Future[said.AnnounceSaid] = asyncio.get_running_loop().create_future()
        self._announced.append(answer)
        await self._say({"type": "turn_started", "text": text, "turn_id": turn_id})
        return await answer

    async def end_turn(self, turn_id: str | None = None, status: str = "completed") -> None:
        await self._say({"type": "turn_ended", "turn_id": turn_id, "status": status})

    async def _say(self, line: dict[str, Any]) -> None:
        if self._writer is not None:
            self._writer.write(_encode({name: value for name, value in line.items() if value is not None}) + b"\n")
            await self._writer.drain()

    # -- hearing ------------------------------------------------------------------------------------------------------

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Until the bridge goes; whoever waits for its answer is told."""
        try:
            await self._hear(reader)
        except ConnectionError:
            pass
        finally:
            self.connected = False
            while self._announced:
                self._announced.popleft().set_exception(ConnectionResetError("the bridge went away"))

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            kind = _line(line).type
            if kind == "ring":
                self._start(self._ring(_ring(line)))
            elif kind == "announce" and self._announced:
                self._announced.popleft().set_result(_announce(line))

    async def _ring(self, ring: said.RingSaid) -> None:
        came = await self._on_ring(ring)
        if came is not None:
            await self._say({"type": "rung", "id": ring.id, "result": came[0], "reason": came[1]})

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _refusal(error: dict[str, str]) -> WakelineError:
    """What the bridge said no with, in its own words."""
    code, message, hint = (error.get(name, "") for name in ("code", "message", "hint"))
    return Unavailable(code, message or "The bridge hung up.", hint)
