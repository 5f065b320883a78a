"""What lies between a client and the server's socket, and can be damaged."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Self

BUSY = {
    "error": {"code": "STORE_BUSY", "message": "m", "hint": "h", "details": {}, "retryable": True},
    "request_id": "r",
    "occurred_at": "2030-01-01T00:00:00Z",
}


class Cable:
    """Carries every connection to the server until it is told to lose something."""

    def __init__(self, server: Path, path: Path) -> None:
        self.path = path
        self.requests = 0
        self.lose_answers = 0  # so many connections are cut when the answer is on its way
        self.busy_answers = 0  # so many are answered with a 503 on the way
        self.cut_after: int | None = None  # so many bytes of the next answer come through
        self._server = server
        self._open: set[asyncio.StreamWriter] = set()
        self._listener: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_unix_server(self._carry, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        self.cut()
        await self._listener.wait_closed()

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there = await asyncio.open_unix_connection(self._server)
        self._open |= {writer, there}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, writer, there))
                group.create_task(self._answers(there_reader, writer, there))
        except* ConnectionError:
            pass
        finally:
            self._open -= {writer, there}
            for end in (writer, there):
                end.transport.abort()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65_536):
            self.requests += data.startswith((b"GET", b"POST", b"PATCH", b"DELETE"))
            if self.busy_answers:
                self.busy_answers -= 1
                body = json.dumps(BUSY).encode()
                writer.write(
                    b"HTTP/1.1 503 Busy\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body)
                )
                await writer.drain()
                break
            there.write(data)
        there.transport.abort()

    async def _answers(
        self, there_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: asyncio.StreamWriter
    ) -> None:
        while data := await there_reader.read(65_536):
            if self.lose_answers:
                self.lose_answers -= 1
                break
            if self.cut_after is not None:
                data, self.cut_after = data[: self.cut_after], None
                writer.write(data)
                await writer.drain()
                break
            writer.write(data)
        writer.close()
        there.transport.abort()
