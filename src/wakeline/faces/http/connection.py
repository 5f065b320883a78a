"""What the application must know of the connection below it: which socket it came in on, and how to cut it off.

The ASGI server tells neither, so our listeners use its protocol class with some additions: it also bounds the head of a
request, and answers what is not HTTP in the words of the application.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 65_536


class Connection:
    """`trusted`: the request came over the machine's own socket, which only its owner can open."""

    __slots__ = ("abort", "closed", "on_close", "trusted")

    def __init__(self, abort: Callable[[], None], *, trusted: bool) -> None:
        self.abort = abort
        self.trusted = trusted
        self.closed = False
        self.on_close: Callable[[], object] | None = None


class TcpProtocol(HttpToolsProtocol):
    trusted = False
    wakeline_connection: Connection | None = None
    in_head = True
    head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.wakeline_connection = Connection(transport.abort, trusted=self.trusted)

    def connection_lost(self, exc: Exception | None) -> None:
        connection = self.wakeline_connection
        if connection is not None:
            connection.closed = True
            if connection.on_close is not None:
                connection.on_close()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.head_bytes = self.head_bytes + len(data) if self.in_head else 0
        super().data_received(data)
        if self.in_head and self.head_bytes > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response(f"The headers are larger than {MAX_HEAD} bytes.")

    def on_headers_complete(self) -> None:
        self.in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.in_head = True
        self.head_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:  # else it would stand in an answer
            application: Any = self.config.app
            self.transport.write(application.refuse(msg))
        self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["wakeline"] = self.wakeline_connection  # type: ignore[typeddict-unknown-key]  # ours, not ASGI's


class LocalProtocol(TcpProtocol):
    trusted = True
