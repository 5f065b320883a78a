"""What the application must know of the connection below it: which socket it came in on, and how to cut it off.

The ASGI server tells neither, so our listeners use its protocol class with some additions: it also bounds the head of a
request, cuts off who takes too long to send one, and answers what is not HTTP in the words of the application.

A request has one deadline from its first byte to its last, because one that begins anew with every byte never ends.  It
is a timer only for a request that did not arrive in one piece, and it does not run while it is we who do not read.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wakeline.errors import InvalidArgument, TooSlow, WakelineError

MAX_HEAD = 65_536


class Connection:
    """`trusted`: the request came over the machine's own socket, which only its owner can open."""

    __slots__ = ("_flow", "abort", "closed", "on_close", "trusted")

    def __init__(self, abort: Callable[[], None], flow: FlowControl | None, *, trusted: bool) -> None:
        self._flow = flow
        self.abort = abort
        self.trusted = trusted
        self.closed = False
        self.on_close: Callable[[], object] | None = None

    @property
    def is_stuck(self) -> bool:
        """Does the other end not read what we write?  Also if we cannot know."""
        return self._flow is None or self._flow.write_paused


class TcpProtocol(HttpToolsProtocol):
    trusted = False
    wakeline_connection: Connection | None = None
    in_head = True
    head_bytes = 0
    deadline: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.wakeline_connection = Connection(transport.abort, self.flow, trusted=self.trusted)
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
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
        if not self._has_begun():
            self._clear_deadline()
        elif self.deadline is None:
            self._set_deadline()

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
            self._refuse(InvalidArgument("MALFORMED_HTTP", msg))
        self.transport.close()

    def _refuse(self, error: WakelineError) -> None:
        application: Any = self.config.app
        self.transport.write(application.refuse(error))

    # -- how long a request may take to arrive ------------------------------------------------------------------------

    def _has_begun(self) -> bool:
        """Is there a request of which some has arrived, but not all?"""
        return not self.in_head or self.head_bytes > 0

    def _set_deadline(self) -> None:
        config: Any = self.config
        self.deadline = self.loop.call_later(config.receive_seconds, self._cut_off)

    def _clear_deadline(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def _cut_off(self) -> None:
        self.deadline = None
        cycle: Any = self.cycle
        answering = cycle is not None and not cycle.response_complete
        if self.flow.read_paused or (self.in_head and answering):
            self._set_deadline()  # what came before is still being answered; the rest is not asked for yet
            return
        answered = not self.in_head and cycle.response_started  # by a refusal that did not wait for the body
        if self._has_begun() and not answered and not self.transport.is_closing():
            self._refuse(TooSlow("REQUEST_TOO_SLOW", "The request did not arrive in time."))
        self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["wakeline"] = self.wakeline_connection  # type: ignore[typeddict-unknown-key]  # ours, not ASGI's


class LocalProtocol(TcpProtocol):
    trusted = True
