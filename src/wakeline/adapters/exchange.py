"""One request and one answer over a connection of its own, made for strangers: everything that comes has a bound."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

import httptools
import msgspec

ANSWER_BYTES = 65_536  # head and body
BODY_SECONDS = 1.0  # the status has decided by then; the rest is evidence
FINAL = 200  # what is below is interim


class BadAnswer(ValueError):
    pass


class NoAnswer(ConnectionError):
    pass


class Answer(msgspec.Struct, frozen=True):
    status: int
    said: str  # the beginning of it, as far as it came
    headers: Mapping[str, str]


class Exchange(asyncio.Protocol):
    """Every byte of an answer comes through here, also what only the parser sees: interim answers without end would
    keep the event loop busy for seconds.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._status: asyncio.Future[int] = loop.create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._left = ANSWER_BYTES
        self._has_spoken = False
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    def say(self, request: bytes) -> None:
        """Once; what is asked for again has been said."""
        if self._transport is not None and not self._has_spoken and not self.closed.done():
            self._has_spoken = True
            self._transport.write(request)

    async def ask(self, request: bytes) -> Answer:
        """The status decides; what is missing of the rest changes nothing about it."""
        self.say(request)
        if not self._has_spoken:
            raise NoAnswer("The connection was closed before anything was sent.")
        status = await self._status
        await asyncio.wait([self.closed], timeout=BODY_SECONDS)
        return Answer(status, self._body.decode("utf-8", "replace"), self._headers)

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- bytes --------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # of a stream, since that is what was asked for

    def data_received(self, data: bytes) -> None:
        taken, self._left = data[: self._left], self._left - len(data)
        try:
            self._parser.feed_data(taken)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._end(BadAnswer(f"This is no HTTP: {error}"))
        if self._left < 0:
            self._end(BadAnswer(f"The answer is longer than {ANSWER_BYTES} bytes."))

    def eof_received(self) -> None:
        self._end(NoAnswer("The connection was closed before an answer."))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or NoAnswer("The connection was closed before an answer."))
        self.closed.set_result(None)

    def _end(self, problem: Exception) -> None:
        """What comes after a status is no problem."""
        if not self._status.done():
            self._status.set_exception(problem)
            self._status.exception()  # perhaps nobody waits for it any more
        self.hang_up()

    # -- what the parser finds ----------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < FINAL:
            self._headers.clear()
        elif not self._status.done():
            self._status.set_result(status)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._status.done():
            self.hang_up()


async def connect(address: str, port: int, tls: ssl.SSLContext | None, name: str) -> Exchange:
    """To an address, never to a name: whoever calls this has looked at it.  A certificate must be for the name."""
    _, exchange = await asyncio.get_running_loop().create_connection(
        Exchange, address, port, ssl=tls, server_hostname=name if tls is not None else None
    )
    return exchange
