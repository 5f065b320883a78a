"""Puts a token into every request on its way: the conformance suite cannot send one."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

from wakeline.testing.server import ServerProcess


class TokenProxy:
    """Listens on loopback in a thread of its own; one request per connection, so that only heads are touched."""

    def __init__(self, server: ServerProcess, token: str) -> None:
        host, _, port = server.url.removeprefix("http://").rpartition(":")
        self._there = host, int(port)
        self._extra = f"\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        listener = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(20)
        self.url = f"http://localhost:{listener.sockets[0].getsockname()[1]}/mcp"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        self._listener = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        return self._listener

    async def _stop(self) -> None:
        self._listener.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            answers, there = await asyncio.open_connection(*self._there)
            try:
                there.write(_without_connection(head).removesuffix(b"\r\n\r\n") + self._extra)
                await asyncio.wait(
                    [asyncio.ensure_future(_pipe(reader, there)), asyncio.ensure_future(_pipe(answers, writer))],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                there.close()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        pass


def _without_connection(head: bytes) -> bytes:
    lines = head.split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.lower().startswith(b"connection:"))
