"""Full-text search: a table of words beside the messages, filled by following the log.

The index is a consumer of the log with a cursor of its own, so a post never waits for it.  The cursor's row is the
lock: of several nodes only one fills the index of a workspace at a time, and words and cursor move in one transaction.
A search first follows the log to where it ended when it was asked, so it misses nothing that was answered before.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from wakeline.core.message import Message
from wakeline.core.store import Search
from wakeline.store.postgres import failure
from wakeline.store.postgres.connection import Connection, Links, run, transaction

SLICE = 64  # of the largest messages, these take seconds
CONSUMER = "search"

# What separates words.  PostgreSQL's own parser would keep addresses, paths and hyphenated words as one, and then
# `example` does not find `www.example.org`; this way words are what they are in SQLite's index.  Code points are listed
# because a class such as [[:punct:]] means something else in each locale.
BREAKS = (
    "[\x01-/:-@\\[-`{-\xa9\xab-\xb1\xb4\xb6-\xb8\xbb\xbf\xd7\xf7\u2000-\u206f\u2190-\u2bff\u2e00-\u2e7f"
    "\u3000-\u3004\u3008-\u3020\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\U0001f000-\U0001faff]+"
)


class SearchIndex:
    def __init__(self, links: Links) -> None:
        self._links = links

    async def follow_all(self, keep_going: Callable[[], bool]) -> int:
        """Index what is new, but not where another node is at it; answers how many messages were indexed."""
        with failure.translated():
            return await self._links.run(lambda connection: _follow_all(connection, keep_going))

    async def search(self, query: Search) -> list[Message]:
        with failure.translated():
            return await self._links.run(lambda connection: _search(connection, query))


async def _follow_all(connection: Connection, keep_going: Callable[[], bool]) -> int:
    indexed = 0
    await run(connection, "add_search_consumers", {})
    for workspace_id, tip, _ in await run(connection, "search_positions", {"workspace_id": None}):
        reached: int | None = 0
        while reached is not None and reached < tip and keep_going():
            reached, count = await _slice(connection, workspace_id, "take_consumer")
            indexed += count
    return indexed


async def _search(connection: Connection, query: Search) -> list[Message]:
    await _catch_up(connection, query.workspace_id)
    given = {
        **msgspec.structs.asdict(query),
        "phrases": list(query.phrases),
        "breaks": BREAKS,
        "thread_id": query.thread_id or "",
        "sender": query.sender or "",
    }
    return [Message(*row) for row in await run(connection, "search", given)]


async def _catch_up(connection: Connection, workspace_id: int) -> None:
    """To the end of the log as it is now; what is posted meanwhile makes it no longer."""
    for _, tip, at in await run(connection, "search_positions", {"workspace_id": workspace_id}):
        if at is None:
            await run(connection, "add_search_consumers", {})
        reached: int | None = at or 0
        while reached is not None and reached < tip:
            reached, _ = await _slice(connection, workspace_id, "wait_for_consumer")


async def _slice(connection: Connection, workspace_id: int, take: str) -> tuple[int | None, int]:
    """Index the next few rows; answers how far the cursor is (None: another node has it) and how many were indexed."""
    cursor = {"workspace_id": workspace_id, "name": CONSUMER}
    async with transaction(connection):
        taken = await run(connection, take, cursor)
        if not taken:
            return None, 0
        given = {"workspace_id": workspace_id, "after": taken[0][0], "limit": SLICE, "breaks": BREAKS}
        [(reached, indexed)] = await run(connection, "index_slice", given)
        await run(connection, "advance_consumer", {**cursor, "last_log_id": reached})
    return reached, indexed
