"""A companion's end of the seat protocol: find the bridge, say hello, report, and answer when it rings.

This is the reference of the protocol, and what tests use in place of a harness.  The bridge comes and goes with its
server, so a lost connection is made again, for as long as the session lives.  What is said while there is none is
dropped: hello and the presence that follows it say all that still counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Protocol

import msgspec

from wakeline.wire import seat as said

_log = logging.getLogger(__name__)

_encode = msgspec.json.Encoder().encode
_kind = msgspec.json.Decoder(said.Line).decode
_HEARD: dict[str, type[said.Line]] = {
    "welcome": said.Welcome,
    "refused": said.RefusedSeat,
    "announce": said.AnnounceSaid,
    "ring": said.RingSaid,
    "withdraw": said.Withdraw,
}
NOTHING = said.AnnounceSaid()

REFUSED_PAUSE = 30.0  # what was refused once is hardly welcome a moment later
HELLO_SECONDS = 10.0


class Parting(Enum):
    """Why there is no connection any more."""

    NOBODY = "nobody answers there"
    REFUSED = "it was not welcome"
    LEFT = "the bridge has left"


class Sitter(Protocol):
    """Who holds the seat: it introduces itself and lets the doorbell in."""

    def hello(self) -> said.Hello: ...

    def welcomed(self, welcome: said.Welcome) -> None: ...

    async def rung(self, ring: said.RingSaid) -> said.Rung | None:
        """None: it has said so itself."""

    def withdrawn(self, mark: str) -> bool:
        """The mail of this doorbell was read: it must not ring any more.  Was it kept until now?"""

    def announced(self, announce: said.AnnounceSaid) -> None:
        """An announcement that nobody waits for any more."""


class Seat:
    def __init__(self, path: Callable[[], str], sitter: Sitter, pauses: Callable[[], Iterator[float]]) -> None:
        self._path, self._sitter, self._pauses = path, sitter, pauses
        self._connection: asyncio.StreamWriter | None = None
        self._writer: asyncio.StreamWriter | None = None  # the same, once it is welcome there
        self._asked: deque[asyncio.Future[said.AnnounceSaid]] = deque()

    @property
    def is_taken(self) -> bool:
        return self._writer is not None

    async def hold(self) -> None:
        """Until cancelled, at one bridge after the other."""
        pauses = self._pauses()
        while True:
            parting = await self.sit()
            if parting is Parting.LEFT:
                pauses = self._pauses()
            await asyncio.sleep(REFUSED_PAUSE if parting is Parting.REFUSED else next(pauses))

    async def sit(self) -> Parting:
        """One connection, until it ends."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._path(), limit=said.LINE_BYTES)
        except OSError:
            return Parting.NOBODY
        self._connection = writer
        try:
            match await self._introduce(reader, writer):
                case said.Welcome() as welcome:
                    await self._serve(welcome, reader, writer)
                    return Parting.LEFT
                case said.RefusedSeat() as refused:
                    _log.warning("the bridge refuses this session: %s", refused.error.get("message"))
                    return Parting.REFUSED
                case _:
                    return Parting.NOBODY
        finally:
            self._leave(writer)

    async def _introduce(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> said.Line | None:
        """What the bridge says to it; one that dies just then says nothing."""
        writer.write(_encode(self._sitter.hello()) + b"\n")
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                return read(await _line(reader))
        except TimeoutError:
            return None

    async def _serve(self, welcome: said.Welcome, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._sitter.welcomed(welcome)
        async with asyncio.TaskGroup() as group:
            while line := await _line(reader):
                match read(line):
                    case said.RingSaid() as ring:
                        group.create_task(self._answer(ring))
                    case said.Withdraw(mark=mark):
                        self.say(said.Withdrawn(mark=mark, kept=self._sitter.withdrawn(mark)))
                    case said.AnnounceSaid() as announce if self._asked:
                        self._announced(announce)
            self._writer = None

    def _announced(self, announce: said.AnnounceSaid) -> None:
        question = self._asked.popleft()
        if question.cancelled():
            self._sitter.announced(announce)
        else:
            question.set_result(announce)

    async def _answer(self, ring: said.RingSaid) -> None:
        came = await self._sitter.rung(ring)
        if came is not None:
            self.say(came)

    def move(self) -> None:
        """Leave, and come back as who says hello then."""
        if self._connection is not None:
            self._connection.close()

    def _leave(self, writer: asyncio.StreamWriter) -> None:
        self._connection = self._writer = None
        while self._asked:
            question = self._asked.popleft()
            if not question.cancelled():
                question.set_result(NOTHING)
        writer.close()

    def say(self, *lines: said.Line) -> None:
        """To the bridge, if there is one that listens."""
        if self._writer is None or not lines:
            return
        if self._writer.transport.get_write_buffer_size() > said.LINE_BYTES:
            self._writer.transport.abort()  # it has stopped reading; the next connection starts afresh
            return
        self._writer.write(b"".join(_encode(line) + b"\n" for line in lines))

    async def ask(self, *lines: said.Line, timeout: float) -> said.AnnounceSaid:
        """Say these, the last of which is answered by an announcement; without an answer in time there is none."""
        if self._writer is None:
            return NOTHING
        answer: asyncio.Future[said.AnnounceSaid] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)  # stays there when we stop waiting: answers come in the order of the questions
        self.say(*lines)
        done, _ = await asyncio.wait([answer], timeout=timeout)
        if not done:
            answer.cancel()
        return answer.result() if done else NOTHING


def read(line: bytes) -> said.Line | None:
    """What the bridge said; a line of a kind that we do not know is none."""
    try:
        kind = _HEARD.get(_kind(line).type)
        return None if kind is None else msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError:
        return None


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except (OSError, ValueError):  # it broke off, or talks without end
        return b""
