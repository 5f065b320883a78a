"""What the application must know of the connection below it: which socket it came in on, and how to cut it off.

The ASGI server tells neither, so our listeners use its protocol class with two additions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Connection:
    """`trusted`: the request came over the machine's own socket, which only its owner can open."""

    __slots__ = ("abort", "closed", "on_close", "trusted")

    def __init__(self, abort: Callable[[], None], *, trusted: bool) -> None:
        self.abort = abort
        self.trusted = trusted
        self.closed = False
        self.on_close: Callable[[], None] | None = None


class TcpProtocol(HttpToolsProtocol):
    trusted = False
    wakeline_connection: Connection | None = None

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

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["wakeline"] = self.wakeline_connection  # type: ignore[typeddict-unknown-key]


class LocalProtocol(TcpProtocol):
    trusted = True
