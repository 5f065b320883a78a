"""Receivers of webhooks on loopback, written on bare streams so that they can misbehave in every way."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Self

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Got(NamedTuple):
    """One request as it came in."""

    line: str
    headers: dict[str, str]  # names as they were spelled
    body: bytes

    def header(self, name: str) -> str:
        return {key.lower(): value for key, value in self.headers.items()}[name.lower()]


Behaviour = Callable[[Got, asyncio.StreamWriter], Awaitable[None]]


class Receiver:
    """Reads one request per connection, remembers it and does what it was told to."""

    def __init__(self, behave: Behaviour, tls: ssl.SSLContext | None = None) -> None:
        self._behave = behave
        self._tls = tls
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.requests: list[Got] = []
        self.open = 0
        self.most_open = 0
        self.called = asyncio.Event()

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"http{'s' if self._tls else ''}://{host}:{self.port}{path}"

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        self.called.set()
        try:
            got = await _read(reader)
            self.requests.append(got)
            await self._behave(got, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            self.open -= 1
            writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> Got:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *rest = head.strip().split("\r\n")
    headers = {name: value.strip() for name, _, value in (one.partition(":") for one in rest)}
    return Got(line, headers, await reader.readexactly(int(headers["Content-Length"])))


def answers(*replies: bytes) -> Behaviour:
    """These replies, one for each request; the last one for all that follow."""
    left = list(replies)

    async def behave(_: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await _finish(writer)

    return behave


def status(number: int, body: bytes = b"", *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 %d Whatever" % number, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def _finish(writer: asyncio.StreamWriter) -> None:
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def hang(_: Got, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def close_at_once(_: Got, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def half_close(_: Got, writer: asyncio.StreamWriter) -> None:
    """Says that it will say nothing more, in the middle of the head, and keeps the connection."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-")
    writer.write_eof()
    await asyncio.Event().wait()


async def close_in_the_body(_: Got, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")
    await _finish(writer)


async def flood(_: Got, writer: asyncio.StreamWriter) -> None:
    """A gigabyte, if anybody takes it."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
    for _number in range(16_384):
        writer.write(b"x" * 65_536)
        await writer.drain()


async def endless_headers(_: Got, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(10_000_000):
        writer.write(b"X-%d: %s\r\n" % (number, b"y" * 1000))
        await writer.drain()


async def endless_header(_: Got, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        writer.write(b"y" * 65_536)
        await writer.drain()


async def endless_hints(_: Got, writer: asyncio.StreamWriter) -> None:
    """Interim answers without end."""
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100)
        await writer.drain()


async def trickle_head(_: Got, writer: asyncio.StreamWriter) -> None:
    for sign in b"HTTP/1.1 200 OK\r\n" + b"X-Slow: " + b"y" * 8_000:
        writer.write(bytes([sign]))
        await writer.drain()
        await asyncio.sleep(0.05)


async def trickle_body(_: Got, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 8000\r\n\r\n")
    for _number in range(8_000):
        writer.write(b"y")
        await writer.drain()
        await asyncio.sleep(0.05)


async def not_http(_: Got, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.9\r\n")
    await _finish(writer)
