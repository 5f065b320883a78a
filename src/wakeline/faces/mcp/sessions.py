"""Sessions of the handshake era, and what is pushed to them outside of any request.

Each has one task that reads its caller's hints and writes them to the session.  Writing into a session whose client
does not read blocks everything in that session (the SDK routes in order), so a write that takes too long ends the
session: the client comes back with a new one, and its inbox has all that it missed.

What is written into a session whose client has no stream open is dropped by the SDK, without a word to us.  So a
session takes a wake only while its line is open, and only if its client understands the event and wants such messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mcp.server.connection import Connection

from wakeline.errors import WakelineError
from wakeline.faces.mcp.backend import Backend
from wakeline.faces.mcp.resource import URI
from wakeline.service import Ear, Push

_log = logging.getLogger(__name__)

CHANNEL = "claude/channel"
SUBSTRATE = "neo-wake-substrate"
EVENTS = (
    "wake/sent_to_me",
    "wake/task_state_changed",
    "wake/permission_granted",
    "wake/heartbeat_pulse",
    "wake/notice_assigned",
    "wake/digest",
)
OFFERED: dict[str, dict[str, Any]] = {SUBSTRATE: {"version": "1.0", "supportedEvents": list(EVENTS)}}
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
SLOW_SECONDS = 5.0
_STATE = "wakeline"


class Line(Protocol):
    """The way to a session's client outside of any request."""

    def is_open(self) -> bool:
        """Does what is written now go out to somebody?"""

    def watch(self, tell: Callable[[], None]) -> None:
        """Be told each time that it opens, until it is forgotten."""

    def forget(self) -> None:
        """The session has ended."""

    async def end(self) -> None:
        """End the session: its client has stopped reading."""


class Session:
    def __init__(self, connection: Connection, line: Line, *, channel: bool = False) -> None:
        self.subscribed = False
        self.ear = Ear(self._takes, lambda: self._channel or self.subscribed)
        self._level = "info"
        self._channel = channel
        self._connection = connection
        self._line = line
        self._wanted = wanted_events(connection)

    def subscribe(self, *, wanted: bool) -> None:
        if wanted != self.subscribed:
            self.subscribed = wanted
            self.ear.changed()

    def set_level(self, level: str) -> None:
        self._level = level
        self.ear.changed()

    def _takes(self, event_type: str) -> bool:
        wanted = self._wanted is None or event_type in self._wanted
        shown = LEVELS.index(self._level) <= LEVELS.index("info")
        return self._line.is_open() and (self._channel or (wanted and shown))

    async def serve(self, backend: Backend) -> None:
        """Until the client leaves, the right to listen ends, or the client stops reading."""
        try:
            async with backend.pushes(lambda: None, self.ear) as pushes:
                async for push in pushes:
                    await self._tell(push)
        except TimeoutError:
            _log.warning("an MCP session did not read for %.0f s and was ended", SLOW_SECONDS)
        except WakelineError as error:
            _log.info("an MCP session is not pushed to: %s", error.message)
            return  # it still works, it only has to ask
        await self._line.end()

    async def _tell(self, push: Push) -> None:
        async with asyncio.timeout(SLOW_SECONDS):
            if self._channel:
                await self._connection.notify("notifications/claude/channel", doorbell(push))
            elif push.kind == "wake":
                await self._tell_of_wake(push.event)
            elif self.subscribed:
                await self._connection.send_resource_updated(URI)

    async def _tell_of_wake(self, event: Mapping[str, Any]) -> None:
        params = {"level": "info", "logger": SUBSTRATE, "data": event}
        await self._connection.notify("notifications/message", params)
        if self.subscribed:
            await self._connection.send_resource_updated(URI)


def doorbell(push: Push) -> dict[str, Any]:
    """What a channel puts before the model: how much there is and how to get it, and no word of a peer's."""
    unread = push.event.get("unread")
    much = f"You have {unread} unread message(s)" if isinstance(unread, int) else "Something happened that concerns you"
    kind = str(push.event.get("eventType", "inbox")) if push.event.get("eventType") in EVENTS else "inbox"
    return {"content": f"{much}. Read them with read_messages.", "meta": {"event": kind}}


def keep(connection: Connection, session: Session) -> None:
    connection.state[_STATE] = session


def find(connection: Connection) -> Session | None:
    found: Session | None = connection.state.get(_STATE)
    return found


def wanted_events(connection: Connection) -> frozenset[str] | None:
    """What the client says that it understands; None if it says nothing."""
    capabilities = connection.client_capabilities
    said = (capabilities.experimental or {}).get(SUBSTRATE) if capabilities is not None else None
    names = said.get("supportedEvents") if isinstance(said, dict) else None
    return frozenset(map(str, names)) if isinstance(names, list) else None
