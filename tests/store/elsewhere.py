"""Make something happen between a node's load and its write, without a hook in the code under test.

A command's decision runs exactly there.  So a test's command does what another node, or the database, does meanwhile,
and only then decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import asyncpg

from tests.store.places import PostgresPlace
from wakeline.core.picture import Needs, Picture
from wakeline.core.store import Command
from wakeline.store.postgres.store import PostgresStore

A = TypeVar("A")


class Meanwhile(Generic[A]):
    """Decides like `command`, but before its n-th decision does the n-th of `actions`."""

    def __init__(self, command: Command[A], *actions: Callable[[], None]) -> None:
        self.workspace_id = command.workspace_id
        self.decisions = 0
        self._command = command
        self._actions = list(actions)

    def needs(self, needs: Needs) -> None:
        self._command.needs(needs)

    def decide(self, picture: Picture) -> A:
        self.decisions += 1
        if self._actions:
            self._actions.pop(0)()
        return self._command.decide(picture)


def on_another_node(place: PostgresPlace, work: Callable[[PostgresStore], Coroutine[Any, Any, Any]]) -> None:
    """Open a node in a thread of its own, let it work, close it; the caller's event loop stands still meanwhile."""

    async def main() -> None:
        store = await PostgresStore.open(place.url, lambda: 0)
        try:
            await work(store)
        finally:
            await store.close()

    _in_thread(main)


def is_locked(place: PostgresPlace, workspace_id: int) -> bool:
    """Does anybody hold the workspace's row?"""

    async def main() -> bool:
        connection = await place.connect()
        try:
            rows = await connection.fetch(
                "SELECT 1 FROM workspaces WHERE workspace_id = $1 FOR UPDATE SKIP LOCKED", workspace_id
            )
        finally:
            await connection.close()
        return not rows

    return _in_thread(main)


async def until(look: Callable[[], Awaitable[object]]) -> None:
    """Look again and again until there is something to see."""
    while not await look():  # noqa: ASYNC110 - a database has no event for it
        await asyncio.sleep(0.005)


async def until_waiting(bare: asyncpg.Connection[asyncpg.Record]) -> None:
    """Until somebody waits for a lock.  (Not by pg_stat_activity, which stands still inside a transaction.)"""
    await until(lambda: bare.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))


def _in_thread(main: Callable[[], Coroutine[Any, Any, A]]) -> A:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(main())).result()
