"""The floor under fan-out: a bare asyncio server that writes one frame to every connection when a byte comes in."""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop

HELLO = b": connected\n\n"


class Receiver(asyncio.Protocol):
    """Every connection receives; whoever sends anything after the first request makes all of them receive."""

    everybody: set[asyncio.Transport] = set()  # noqa: RUF012 - one server per process
    frame = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET"):
            self.everybody.add(self._transport)
            self._transport.write(HELLO)
            return
        for transport in self.everybody:
            transport.write(self.frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self.everybody.discard(self._transport)


async def serve(frame_bytes: int) -> None:
    Receiver.frame = b"id: 1\nevent: message.posted\ndata: " + b"x" * (frame_bytes - 38) + b"\n\n\r\n"
    server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
