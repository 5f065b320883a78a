"""The adapter for served sessions, and an opencode that has much to do: a stand-in that leaves out answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from wakeline.adapters.opencode.adapter import OpencodeServed
from wakeline.adapters.opencode.api import OpencodeServer
from wakeline.core.observation import Noticed, Observation
from wakeline.core.session import Presence
from wakeline.errors import Unavailable
from wakeline.wire.seat import Hello, Welcome

WAIT_SECONDS = 30.0
SESSION = {"id": "ses_1", "directory": "/work", "version": "1.18.33"}
CREATED = {"type": "session.created", "properties": {"sessionID": "ses_1", "info": SESSION}}
CONNECTED, ALIVE = {"type": "server.connected"}, {"type": "server.heartbeat"}
ANSWERS: dict[str, Any] = {
    "/session/ses_1": SESSION,
    "/config": {"mcp": {"wakeline": {"environment": {"WAKELINE_TOKEN": "a token"}}}},
    "/session/status": {},
    "/session/ses_1/message": [],
    "/permission": [],
}


class SlowOpencode:
    """`silent`: how many requests for a path it takes and never answers; `failing`: to how many it answers an error."""

    def __init__(self, silent: dict[str, int], failing: dict[str, int]) -> None:
        self._silent = dict(silent)
        self._failing = dict(failing)
        self.streams: list[asyncio.Queue[Any]] = []
        self.followed = asyncio.Event()
        self.failed = asyncio.Event()  # something has failed

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if _counts(self._silent, request.path):
            await asyncio.Event().wait()
        if _counts(self._failing, request.path):
            self.failed.set()
            return web.Response(status=500)
        if request.path == "/global/event":
            return await self._stream(request)
        return web.json_response(ANSWERS[request.path])

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        events: asyncio.Queue[Any] = asyncio.Queue()
        events.put_nowait(CONNECTED)
        self.streams.append(events)
        self.followed.set()
        while True:
            await response.write(f"data: {json.dumps({'payload': await events.get()})}\n\n".encode())


def _counts(left: dict[str, int], path: str) -> bool:
    left[path] = left.get(path, 0) - 1
    return left[path] >= 0


class Bridge:
    """Whom the adapter tells of sessions.  `away`: so often it cannot be told."""

    def __init__(self, away: int = 0) -> None:
        self._away = away
        self.refused = asyncio.Event()
        self.idle = asyncio.Event()

    async def register(self, hello: Hello) -> Welcome:
        self._away -= 1
        if self._away >= 0:
            self.refused.set()
            raise Unavailable("SHUTTING_DOWN", "The bridge does not run yet.")
        return Welcome(session_id=f"S of {hello.native_id}", handle="@bob")

    async def announce(self, session_id: str, turn_id: str | None, shown: tuple[str, ...]) -> tuple[None, list[str]]:
        return None, []

    async def report(self, observation: Observation) -> None:
        if observation == Noticed("S of ses_1", Presence.IDLE, None, "opencode"):
            self.idle.set()


@asynccontextmanager
async def following(opencode: SlowOpencode, bridge: Bridge) -> AsyncIterator[None]:
    server = web.Server(opencode.answer, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    slow = OpencodeServer(f"http://127.0.0.1:{runner.addresses[0][1]}")
    adapter = OpencodeServed([slow], bridge.register, bridge.announce)
    task = asyncio.create_task(adapter.watch(list, bridge.report))
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await runner.cleanup()


async def test_a_server_that_took_a_request_too_early_to_answer_it_is_asked_again() -> None:
    opencode, bridge = SlowOpencode({"/global/event": 1}, {}), Bridge()
    async with following(opencode, bridge):
        await opencode.followed.wait()
        opencode.streams[0].put_nowait(CREATED)
        opencode.streams[0].put_nowait(ALIVE)
        await bridge.idle.wait()


@pytest.mark.parametrize("path", ["/session/ses_1", "/config", "/session/status", "/session/ses_1/message"])
async def test_a_call_that_failed_is_repeated_at_the_next_sign_of_life_and_no_event_is_missed(path: str) -> None:
    opencode, bridge = SlowOpencode({}, {path: 1}), Bridge()
    async with following(opencode, bridge):
        await opencode.followed.wait()
        [events] = opencode.streams
        events.put_nowait(CREATED)
        events.put_nowait(ALIVE)
        await opencode.failed.wait()
        events.put_nowait(ALIVE)
        await bridge.idle.wait()
        assert len(opencode.streams) == 1


async def test_a_session_that_could_not_be_registered_is_at_the_next_sign_of_life() -> None:
    opencode, bridge = SlowOpencode({}, {}), Bridge(away=1)
    async with following(opencode, bridge):
        await opencode.followed.wait()
        [events] = opencode.streams
        events.put_nowait(CREATED)
        await bridge.refused.wait()
        events.put_nowait(ALIVE)
        await bridge.idle.wait()
