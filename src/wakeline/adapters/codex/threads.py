"""What we ask of one thread, in our words."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, NamedTuple

from wakeline.adapters.codex.messages import (
    ConfigRead,
    Deleted,
    LoadedThreads,
    McpServer,
    Queue,
    Queued,
    Submission,
    Thread,
    ThreadRead,
    Turn,
    Turns,
)
from wakeline.adapters.codex.server import AppServer, Refusal, Unanswered

QUEUE_PAGE = 100
TOOLS_SECONDS = 15.0


class Page(NamedTuple):
    """How many turns, and whether with everything in them: else there is only the prompt that a turn began with."""

    turns: int
    whole: bool = False


RECENT, LAST = Page(20), Page(4)


def as_input(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, "text_elements": []}]


async def loaded_threads(server: AppServer) -> tuple[str, ...]:
    return (await server.ask("thread/loaded/list", LoadedThreads)).data


async def read_thread(server: AppServer, thread_id: str) -> Thread | None:
    """None: this server does not know it."""
    try:
        return (await server.ask("thread/read", ThreadRead, threadId=thread_id)).thread
    except Refusal:
        return None


async def recent_turns(server: AppServer, thread_id: str, page: Page = RECENT) -> tuple[Turn, ...]:
    """The newest first.  A thread without a first prompt has none, and refuses to say so."""
    view = "full" if page.whole else "summary"
    try:
        said = await server.ask("thread/turns/list", Turns, threadId=thread_id, limit=page.turns, itemsView=view)
        return said.data
    except Refusal:
        return ()


async def queue_of(server: AppServer, thread_id: str) -> tuple[Submission, ...]:
    return (await server.ask("thread/queue/list", Queue, threadId=thread_id, limit=QUEUE_PAGE)).data


async def look_at(
    server: AppServer, thread_id: str, page: Page
) -> tuple[Thread | None, tuple[Submission, ...], tuple[Turn, ...]]:
    return await asyncio.gather(
        read_thread(server, thread_id), queue_of(server, thread_id), recent_turns(server, thread_id, page)
    )


async def add_to_queue(server: AppServer, thread_id: str, mark: str, text: str, patience: float = 10.0) -> str:
    asked = {"threadId": thread_id, "clientUserMessageId": mark, "input": as_input(text)}
    said = await server.ask("thread/queue/add", Queued, patience=patience, **asked)
    return said.queued_submission.id


async def take_from_queue(server: AppServer, thread_id: str, submission_id: str) -> bool:
    said = await server.ask("thread/queue/delete", Deleted, threadId=thread_id, queuedSubmissionId=submission_id)
    return said.deleted


async def steer(server: AppServer, thread_id: str, turn_id: str, mark: str, text: str) -> None:
    await server.ask(
        "turn/steer",
        dict[str, Any],
        threadId=thread_id,
        expectedTurnId=turn_id,
        clientUserMessageId=mark,
        input=as_input(text),
    )


async def our_entry(server: AppServer, cwd: str | None, name: str) -> McpServer | None:
    """The MCP server of that name as Codex sees it from this directory, with the layers of a project that it trusts."""
    entry = (await server.ask("config/read", ConfigRead, cwd=cwd)).config.mcp_servers.get(name)
    return entry if entry is not None and entry.enabled else None


async def wait_for_tools(server: AppServer, thread_id: str, name: str) -> None:
    """Until the thread has this MCP server's tools, or has tried long enough.

    Codex starts a thread before its MCP servers have come up, and a turn that begins meanwhile does without them.
    """
    asked = {"threadId": thread_id, "serverName": name, "detail": "toolsAndAuthOnly"}
    with contextlib.suppress(Refusal, Unanswered):
        await server.ask("mcpServerStatus/list", dict[str, Any], patience=TOOLS_SECONDS, **asked)
