"""What the bridge does for its seats: sessions in the agents' own names, what they see, what they are told."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from typing import Any

import msgspec

from wakeline.core.instant import to_datetime
from wakeline.core.observation import Observation
from wakeline.core.session import Sighting
from wakeline.errors import Forbidden, Unauthorized, Unavailable
from wakeline.runtime.bridge import Bridge
from wakeline.runtime.lines import Line
from wakeline.wire.seat import Hello, Welcome

_VISITED = ("harness", "native_id", "host", "cwd", "presence", "presence_source")
ANNOUNCE_SECONDS = 3.0  # a harness waits for this answer before it begins its turn


class Desk:
    def __init__(self, host: str, look: Callable[[int], Sighting]) -> None:
        self._host = host
        self._look = look
        self._bridge: Bridge | None = None

    def serve(self, bridge: Bridge) -> None:
        self._bridge = bridge

    async def register(self, hello: Hello) -> Welcome:
        line = self._line(hello.token)
        handle, attended = await line.heartbeat(hello.token, self._said(hello))
        await self._known.refresh(line.workspace)
        return Welcome(session_id=attended.session_id, handle=handle, doorbell=attended.doorbell)

    def _said(self, hello: Hello) -> dict[str, Any]:
        transport = hello.transport or "seat"
        started_at = self._look(hello.pid)[1] if hello.pid is not None else None
        said: dict[str, Any] = {
            "harness": hello.harness,
            "harness_version": hello.version,
            "transport": transport,
            "native_id": hello.native_id,
            "host": self._host,
            "cwd": hello.cwd,
            "pid": hello.pid,
            "pid_started_at": None if started_at is None else to_datetime(started_at).isoformat(),
            "wake_mode": hello.wake_mode,
            "capabilities": hello.capabilities,
            "resumable": hello.resumable,
            "presence": hello.presence,
            "presence_source": hello.harness,
        }
        if hello.visit and hello.transport is None:  # how it is reached is said by who reaches it
            said = {name: said[name] for name in _VISITED}
        return {name: value for name, value in said.items() if value is not None}

    async def beat(self, token: str, session_id: str, **news: object) -> None:
        await self._line(token).heartbeat(token, {"session_id": session_id, **news})

    async def end(self, token: str, session_id: str) -> None:
        await self._line(token).end(token, session_id)

    async def report(self, seen: Observation) -> None:
        await self._known.report(seen)

    async def announce(
        self, session_id: str, turn_id: str | None, shown: tuple[str, ...]
    ) -> tuple[str | None, list[str]]:
        """Nothing, if the server does not say in time: a turn is not held up for it."""
        try:
            async with asyncio.timeout(ANNOUNCE_SECONDS):
                return await self._known.announce(session_id, turn_id, shown)
        except (TimeoutError, Unavailable):
            return None, []

    @property
    def _known(self) -> Bridge:
        if self._bridge is None:
            raise Unavailable("SHUTTING_DOWN", "The bridge does not run yet.")
        return self._bridge

    def _line(self, token: str) -> Line:
        """Of the workspace that the token names; whether it is right to, the server decides."""
        line = self._known.line(workspace_in(token))
        if line is None:
            raise Forbidden("WORKSPACE_MISMATCH", "This bridge does not serve the token's workspace.", rule="workspace")
        return line


def workspace_in(token: str) -> str:
    try:
        middle = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        return str(claims["workspace_id"])
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise Unauthorized("TOKEN_INVALID", "The token is not one that a companion could use.") from error
