"""`wakeline mcp`: the same MCP server over stdin and stdout, in a process that a harness starts for one agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from mcp.server.stdio import stdio_server

from wakeline.faces.mcp.backend import Backend
from wakeline.faces.mcp.server import Context, Unlisted, build


class Pipe:
    """What the server asks of its transport, where there is one caller and one connection."""

    def __init__(self, backend: Backend, group: asyncio.TaskGroup) -> None:
        self._backend = backend
        self._group = group

    def backend(self, ctx: Context) -> Backend:
        return self._backend

    def spawn(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        return self._group.create_task(work).cancel

    def ending(self, session_id: str | None) -> Callable[[], Awaitable[None]]:
        async def nothing() -> None:
            """A harness that does not read its own pipe stops only itself."""

        return nothing


async def serve(backend: Backend, unlisted: Mapping[str, Unlisted] | None = None) -> None:
    """Until stdin ends."""
    async with asyncio.TaskGroup() as group:
        server = build(Pipe(backend, group), unlisted=unlisted)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
