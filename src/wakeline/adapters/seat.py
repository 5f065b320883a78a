"""Seats: companions inside harnesses connect to the bridge, and are rung through their connection.

A companion is a plugin, an extension or a child process of a harness.  It says who its session is and proves it with
the agent's own token, tells how the session is, and rings inside it when it is told to.  What it sees of our marks is
the evidence that a ring arrived.  A companion that is slow or dead costs nobody else anything: every wait for it is
bounded, and what it may have done by then is `Uncertain`.

The levels here are those of the protocol.  What a companion's harness can do was proven for the harness, its transport
and its version.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from wakeline.adapters.harness import ANY
from wakeline.adapters.seat_turns import Turns
from wakeline.core.observation import Observation
from wakeline.core.parcel import Absent, Accepted, Failed, Parcel, Refused, Result, Uncertain, bounded
from wakeline.core.session import Session, WakeMode
from wakeline.errors import InvalidArgument, Unavailable, WakelineError
from wakeline.wire import seat as said

_log = logging.getLogger(__name__)

HELLO_SECONDS = 10.0
BEAT_SECONDS = 60.0
GRACE_SECONDS = 3.0  # a companion that comes back in this time was never away
WRITE_SECONDS = 5.0
MOST_SEATS = 1_000
MOST_RINGS = 16  # under way in one seat

_encode = msgspec.json.Encoder().encode
_line = msgspec.json.Decoder(said.Line).decode
T = TypeVar("T")


ARRIVAL_SECONDS = 2.0


class Desk(Protocol):
    """What the bridge does for a seat."""

    async def register(self, hello: said.Hello) -> said.Welcome:
        """Make or renew the session in the agent's own name.  Raises WakelineError."""
        ...

    async def beat(self, token: str, session_id: str, **news: object) -> None:
        """Say that it is there, and what is new about it."""
        ...

    async def end(self, token: str, session_id: str) -> None: ...

    async def report(self, seen: Observation) -> None: ...

    async def announce(
        self, session_id: str, turn_id: str | None, shown: tuple[str, ...]
    ) -> tuple[str | None, list[str]]: ...


class Seats:
    """The seat adapter.  `serve` a connection for each companion; `deliver` rings through the one of a session."""

    harness = ANY
    transport = "seat"
    wake_mode = WakeMode.SOCKET
    levels: Mapping[str, str] = {"D0": "pass", "D2": "pass", "D3": "pass"}
    capabilities: tuple[str, ...] = ()

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._seats: dict[str, Seat] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._arriving: set[asyncio.Event] = set()  # each is set when its companion sat down, or did not
        self._visited: OrderedDict[str, Turns] = OrderedDict()
        self._open = 0

    def holds(self, session_id: str) -> bool:
        return session_id in self._seats

    async def deliver(self, parcel: Parcel) -> Result:
        seat = None if parcel.session is None else await self._find(parcel.session.session_id)
        return Absent() if seat is None else await seat.ring(parcel)

    async def withdraw(self, session: Session, mark: str) -> bool:
        seat = self._seats.get(session.session_id)
        return seat is not None and await seat.withdraw(mark)

    async def _find(self, session_id: str) -> Seat | None:
        """A session that the server knows may be about to sit down: its mail can be faster than its welcome."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ARRIVAL_SECONDS):
                while session_id not in self._seats and self._arriving:
                    await next(iter(self._arriving)).wait()
        return self._seats.get(session_id)

    # -- connections --------------------------------------------------------------------------------------------------

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One companion, until it goes."""
        self._open += 1
        try:
            hello = await self._greet(reader, writer)
            if hello is not None:
                await self._attend(hello, reader, writer)
        except (ConnectionError, ValueError, TimeoutError) as error:
            _log.info("a companion's connection ended: %r", error)
        finally:
            self._open -= 1
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> said.Hello | None:
        try:
            if self._open > MOST_SEATS:
                raise InvalidArgument("INVALID_ARGUMENT", "This bridge has no seat left.", "Close sessions first.")
            async with asyncio.timeout(HELLO_SECONDS):
                first = await reader.readline()
            return _hello(first) if first else None
        except WakelineError as error:
            await _refuse(writer, error)
            return None

    async def _attend(self, hello: said.Hello, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived = asyncio.Event()
        self._arriving.add(arrived)
        try:
            welcome = await self._desk.register(hello)
            seat = Seat(self._desk, hello, welcome.session_id, writer)
            if not hello.visit:
                self._take(seat)
        except Unavailable as error:
            _log.info("a companion must come back when the server does: %s", error.message)
            return  # without a word: that is no refusal
        except WakelineError as error:
            await _refuse(writer, error)
            return
        finally:
            self._arriving.discard(arrived)
            arrived.set()
        if hello.visit:
            await self._visit(hello, welcome, reader, writer)
            return
        try:
            await seat.say(welcome)
            async with asyncio.TaskGroup() as group:
                beating = group.create_task(seat.beat())
                await seat.listen(reader)
                beating.cancel()
        finally:
            self._leave(seat)

    async def _visit(
        self, hello: said.Hello, welcome: said.Welcome, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Its turns are remembered from one visit to the next: one tells of a beginning, another of the end."""
        session_id = welcome.session_id
        turns = self._visited.pop(session_id, None) or Turns(self._desk, session_id, "unknown", hello.harness)
        self._visited[session_id] = turns
        while len(self._visited) > MOST_SEATS:
            self._visited.popitem(last=False)
        seat = Seat(self._desk, hello, session_id, writer, turns)
        try:
            await seat.say(welcome)
            await seat.listen(reader)
        finally:
            seat.close()

    def _take(self, seat: Seat) -> None:
        """The newest connection of a session is the one that counts."""
        leaving = self._leaving.pop(seat.session_id, None)
        if leaving is not None:
            leaving.cancel()
        before = self._seats.get(seat.session_id)
        self._seats[seat.session_id] = seat
        if before is not None:
            before.close()

    def _leave(self, seat: Seat) -> None:
        seat.close()
        if self._seats.get(seat.session_id) is seat:
            del self._seats[seat.session_id]
            self._leaving[seat.session_id] = asyncio.get_running_loop().create_task(self._end(seat))

    async def _end(self, seat: Seat) -> None:
        await asyncio.sleep(GRACE_SECONDS)
        self._leaving.pop(seat.session_id, None)
        with contextlib.suppress(WakelineError):  # a server that is away hears of it by the silence
            await self._desk.end(seat.hello.token, seat.session_id)

    async def close(self) -> None:
        """The bridge stops.  Its sessions do not: their companions come back to the next one."""
        for task in self._leaving.values():
            task.cancel()
        for seat in list(self._seats.values()):
            seat.close()


class Seat:
    """One companion's connection."""

    def __init__(
        self,
        desk: Desk,
        hello: said.Hello,
        session_id: str,
        writer: asyncio.StreamWriter,
        turns: Turns | None = None,
    ) -> None:
        self.hello = hello
        self.session_id = session_id
        self._desk = desk
        self._writer = writer
        self._rings: dict[str, asyncio.Future[said.Rung]] = {}
        self._unwanted: dict[str, asyncio.Future[said.Withdrawn]] = {}  # by their marks
        self._turns = turns or Turns(desk, session_id, hello.presence, hello.harness)
        self._hears: dict[str, Callable[[bytes], Awaitable[None]]] = {
            "presence": self._typed(said.PresenceSaid, self._turns.presence_said),
            "turn_started": self._typed(said.TurnStarted, self._started),
            "turn_ended": self._typed(said.TurnEnded, self._turns.ended),
            "injected": self._typed(said.InjectedSaid, self._turns.injected),
            "renamed": self._typed(said.Renamed, self._renamed),
            "context": self._typed(said.ContextSaid, self._context),
            "rung": self._typed(said.Rung, self._rung),
            "withdrawn": self._typed(said.Withdrawn, self._withdrawn),
        }

    def close(self) -> None:
        self._writer.close()
        asked: list[asyncio.Future[Any]] = [*self._rings.values(), *self._unwanted.values()]
        for waiting in asked:
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the companion went away"))

    async def say(self, line: said.Line) -> None:
        self._writer.write(_encode(line) + b"\n")
        async with asyncio.timeout(WRITE_SECONDS):
            await self._writer.drain()

    # -- hearing ------------------------------------------------------------------------------------------------------

    async def listen(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            try:
                hear = self._hears.get(_line(line).type)
                if hear is not None:
                    await hear(line)
            except msgspec.MsgspecError as error:
                _log.info("a companion of %s said something that is not the protocol: %s", self.session_id, error)
            except WakelineError as error:
                _log.warning("what a companion of %s said was not taken: %s", self.session_id, error.message)

    def _typed(self, kind: type[T], hear: Callable[[T], Awaitable[None]]) -> Callable[[bytes], Awaitable[None]]:
        decode = msgspec.json.Decoder(kind).decode

        async def hear_line(line: bytes) -> None:
            await hear(decode(line))

        return hear_line

    async def _started(self, turn: said.TurnStarted) -> None:
        text, marks = await self._turns.started(turn)
        await self.say(said.AnnounceSaid(text=text, marks=marks, turn_id=turn.turn_id))

    async def _renamed(self, news: said.Renamed) -> None:
        await self._desk.beat(self.hello.token, self.session_id, native_id=news.native_id)

    async def _context(self, news: said.ContextSaid) -> None:
        limit = {} if news.limit is None else {"context_limit": news.limit}
        await self._desk.beat(self.hello.token, self.session_id, context_tokens=news.tokens, **limit)

    async def _rung(self, answer: said.Rung) -> None:
        waiting = self._rings.get(answer.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def _withdrawn(self, answer: said.Withdrawn) -> None:
        waiting = self._unwanted.get(answer.mark)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def beat(self) -> None:
        """As long as it is connected it is there, whatever it says."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                await self._desk.beat(self.hello.token, self.session_id, presence=self._turns.presence)
            except WakelineError as error:
                _log.info("a heartbeat for %s is postponed: %s", self.session_id, error.message)

    # -- ringing ------------------------------------------------------------------------------------------------------

    async def ring(self, parcel: Parcel) -> Result:
        if len(self._rings) >= MOST_RINGS:
            return Failed("busy", "Too many rings are under way in this seat.")
        if self._writer.is_closing():
            return Absent()
        waiting: asyncio.Future[said.Rung] = asyncio.get_running_loop().create_future()
        self._rings[parcel.delivery_id] = waiting
        presence = parcel.session.presence if parcel.session is not None else "unknown"
        line = said.RingSaid(id=parcel.delivery_id, mark=parcel.mark, text=parcel.text, presence_at_plan=presence)
        try:
            async with asyncio.timeout(parcel.timeout.total_seconds()):
                await self.say(line)
                return _result(await waiting)
        except TimeoutError:
            return Uncertain("timeout", "The companion did not say what came of it in time.")
        except ConnectionError as error:
            return Uncertain("connection_lost", str(error))
        finally:
            del self._rings[parcel.delivery_id]

    async def withdraw(self, mark: str) -> bool:
        """Within the patience of who asks: a companion that knows no such word never answers."""
        if mark in self._unwanted or self._writer.is_closing():
            return False
        waiting: asyncio.Future[said.Withdrawn] = asyncio.get_running_loop().create_future()
        self._unwanted[mark] = waiting
        try:
            await self.say(said.Withdraw(mark=mark))
            return (await waiting).kept
        except ConnectionError:
            return False
        finally:
            del self._unwanted[mark]


def _result(answer: said.Rung) -> Result:
    reason, detail = answer.reason or "unspecified", bounded(answer.detail or "")
    match answer.result:
        case "accepted":
            return Accepted(None, detail)
        case "refused":
            return Refused(None, reason, detail)
        case "failed":
            return Failed(reason, detail)
        case "unknown":
            return Uncertain(reason, detail)


def _hello(line: bytes) -> said.Hello:
    try:
        hello = msgspec.json.decode(line, type=said.Hello)
    except msgspec.MsgspecError as error:
        raise InvalidArgument(
            "INVALID_ARGUMENT", f"The first line is no hello: {error}.", "See the seat protocol."
        ) from error
    if hello.type != "hello" or hello.protocol != said.PROTOCOL:
        raise InvalidArgument(
            "INVALID_ARGUMENT",
            f"This bridge speaks protocol {said.PROTOCOL}.",
            "Install what belongs to this Wakeline.",
        )
    return hello


async def _refuse(writer: asyncio.StreamWriter, error: WakelineError) -> None:
    shown = {"code": error.code, "message": error.message, "hint": error.hint}
    writer.write(_encode(said.RefusedSeat(error=shown)) + b"\n")
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(WRITE_SECONDS):
            await writer.drain()
