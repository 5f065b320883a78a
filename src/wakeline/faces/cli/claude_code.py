"""Puts the companion of a Claude Code session together from the environment that Claude Code gave it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from wakeline.client import backoff
from wakeline.endpoint import Endpoint, find_seats
from wakeline.faces.mcp.acting import Here, nowhere
from wakeline.faces.mcp.server import Unlisted
from wakeline.harnesses.claude_code import registry
from wakeline.harnesses.claude_code.bell import Bell
from wakeline.harnesses.claude_code.companion import TOOL, Companion, Place
from wakeline.harnesses.claude_code.inbox import Inbox
from wakeline.harnesses.claude_code.meeting import meeting_folder
from wakeline.harnesses.claude_code.registry import Registry
from wakeline.harnesses.claude_code.rewake import Waiter, Watched
from wakeline.runtime import clock

_log = logging.getLogger(__name__)

ENTRY = "CLAUDE_CODE_ENTRYPOINT"  # cli, or sdk-cli for `claude -p`
BELL = "WAKELINE_CLAUDE_BELL"  # inbox, rewake or watch, if it shall not be the first that is there


@asynccontextmanager
async def beside(endpoint: Endpoint, environ: Mapping[str, str]) -> AsyncIterator[tuple[Mapping[str, Unlisted], Here]]:
    """The companion, running: the tool by which hooks reach it, and its session.  Hooks are answered also without."""
    async with AsyncExitStack() as stack:
        companion = await _companion(endpoint, environ, stack)
        if companion is None:
            yield {TOOL: _nothing}, nowhere
            return
        running = asyncio.create_task(companion.run())
        try:
            yield {TOOL: companion.hook}, lambda: companion.native_id
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def _companion(endpoint: Endpoint, environ: Mapping[str, str], stack: AsyncExitStack) -> Companion | None:
    native_id = environ.get("CLAUDE_CODE_SESSION_ID")
    if not native_id or endpoint.token is None:
        return None
    try:
        bell = await _bell(environ, stack)
    except OSError as error:
        _log.warning("this session cannot be rung: %s", error)
        return None
    cwd, attended = environ.get("CLAUDE_PROJECT_DIR") or str(Path.cwd()), environ.get(ENTRY, "cli") == "cli"
    sessions = registry.folder(environ)
    pid = registry.find_process(sessions, native_id, os.getppid())
    place, known = Place(endpoint.token, native_id, pid, cwd, attended), Registry(sessions, pid)
    return Companion(place, bell, known, lambda: find_seats(endpoint.data or "", environ), backoff, clock.now)


async def _nothing(_: dict[str, Any]) -> dict[str, Any]:
    return {}


async def _bell(environ: Mapping[str, str], stack: AsyncExitStack) -> Bell:
    """The best that is there: the inbox socket, the hook that waits, the file that is watched."""
    path = environ.get("CLAUDE_CODE_MESSAGING_SOCKET")
    wanted = environ.get(BELL) or ("inbox" if path else "rewake")
    if wanted == "inbox" and path:
        inbox = Inbox(Path(path), environ.get("CLAUDE_CODE_MESSAGING_TOKEN"), lambda: str(uuid4()))
        await stack.enter_async_context(inbox.open())
        return inbox
    folder = meeting_folder(environ)
    return Watched(folder) if wanted == "watch" else Waiter(folder)
