"""`wakeline mcp`: the same MCP server over stdin and stdout, in a process that a harness starts for one agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from mcp.server.stdio import stdio_server

from wakeline.calls import Call
from wakeline.faces.mcp import sessions
from wakeline.faces.mcp.acting import Acting
from wakeline.faces.mcp.backend import Backend
from wakeline.faces.mcp.server import Context, Unlisted, build
from wakeline.faces.mcp.tools import Tool


class Pipe:
    """What the server asks of its transport, where there is one caller and one connection."""

    def __init__(self, backend: Backend, group: asyncio.TaskGroup, acting: Acting) -> None:
        self._backend = backend
        self._group = group
        self._acting = acting

    def backend(self, ctx: Context) -> Backend:
        return self._backend

    def post(self, ctx: Context, tool: Tool, asked: Callable[[], Call]) -> Awaitable[Any]:
        return self._acting.post(asked(), ctx.meta, self._backend)

    def spawn(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        return self._group.create_task(work).cancel

    def line(self, session_id: str | None) -> sessions.Line:
        return _Always()


class _Always:
    """A pipe is open as long as its process lives."""

    def is_open(self) -> bool:
        return True

    def watch(self, tell: Callable[[], None]) -> None:
        """It never opens: it always was."""

    def forget(self) -> None:
        """It ends with the process."""

    async def end(self) -> None:
        """A harness that does not read its own pipe stops only itself."""


async def serve(backend: Backend, acting: Acting, unlisted: Mapping[str, Unlisted] | None = None) -> None:
    """Until stdin ends."""
    async with asyncio.TaskGroup() as group:
        server = build(Pipe(backend, group, acting), unlisted=unlisted)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
