"""The store over PostgreSQL: lanes for writing, connections for the rest, the doorbell, behind the one interface."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from wakeline.core.message import Message
from wakeline.core.queries import Query
from wakeline.core.store import Command, Doorbell, FollowUp, Hear, HearFollowed, Making, Search, Wants
from wakeline.errors import WakelineError
from wakeline.store import statements
from wakeline.store.chores import Chores, Step
from wakeline.store.postgres import failure
from wakeline.store.postgres.connection import Connection, Links, Server, run, transaction
from wakeline.store.postgres.doorbell import CHANNEL, DoorbellLine
from wakeline.store.postgres.migration import prepare
from wakeline.store.postgres.search import SearchIndex
from wakeline.store.postgres.writer import Writer

A = TypeVar("A")
R = TypeVar("R")

# A node's clock decides when tokens expire, the database's decides everything else.  Further apart, they contradict.
_CLOCK_TOLERANCE = 30_000_000


class PostgresStore(Chores):
    def __init__(
        self,
        server: Server,
        clock: Callable[[], int],
        *,
        poll_seconds: float,
        connections: int,
        dice: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._doorbells: list[Doorbell] = []
        self._closing = False
        self._links = Links(lambda: server.connect("node"), connections, dice)
        self._writing = Links(lambda: server.connect("writer", by_key=True), connections, dice)
        self._search = SearchIndex(self._links)
        self._line = DoorbellLine(
            lambda: server.connect("doorbell"), self._notify, self._ring, poll_seconds=poll_seconds, dice=dice
        )
        self._writer = Writer(self._writing, self._line.tell)

    @classmethod
    async def open(
        cls,
        url: str,
        clock: Callable[[], int],
        *,
        poll_seconds: float = 1.0,
        connections: int = 8,
        dice: Callable[[], float] = random.random,
    ) -> PostgresStore:
        """`connections` bounds each of two kinds, for writing and for the rest; the doorbell has one more.

        `poll_seconds` is how often everybody is told to look while the doorbell does not work.
        """
        server = Server.parse(url)
        await prepare(server)
        store = cls(server, clock, poll_seconds=poll_seconds, connections=connections, dice=dice)
        await store._line.start()
        return store

    # -- writing ------------------------------------------------------------------------------------------------------

    async def submit(self, command: Command[A] | Making[A]) -> A:
        answer: A = await self._writer.submit(command() if callable(command) else command)
        return answer

    async def transact(self, steps: Sequence[Step]) -> list[int]:
        """The workspaces that the steps name (all, if they name none) are locked first, and their versions move on.

        So a batch that was loaded before and is written after finds its guard closed and decides again.
        """
        named = sorted({given["workspace_id"] for _, given in steps if "workspace_id" in given})

        async def work(connection: Connection) -> list[int]:
            async with transaction(connection):
                await _change(connection, "lock_workspaces", {"workspace_ids": named})
                return [await _change(connection, name, given) for name, given in steps]

        with failure.translated():
            return await self._links.run(work)

    # -- the doorbell -------------------------------------------------------------------------------------------------

    def on_commit(self, doorbell: Doorbell, hear: Hear | None = None, wants: Wants | None = None) -> None:
        """Nobody is offered rows: other nodes' come in between, so what is next must be read anyway."""
        self._doorbells.append(doorbell)

    def follow_up(self, follow_up: FollowUp, hear: HearFollowed, expect: HearFollowed) -> None:
        """Two round trips per batch leave no room for it, and any node may be the one that matches."""

    def _ring(self, workspace_id: int) -> None:
        for doorbell in self._doorbells:
            doorbell(workspace_id)

    async def _notify(self, payload: str) -> None:
        await self._links.run(lambda connection: connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload))

    # -- reading ------------------------------------------------------------------------------------------------------

    async def now(self) -> int:
        [(now,)] = await self.fetch("now", {})
        return int(now)

    async def read(self, query: Query[R]) -> list[R]:
        [rows] = await self.read_together(query)
        return rows

    async def read_together(self, *queries: Query[Any]) -> list[list[Any]]:
        async def work(connection: Connection) -> list[list[Any]]:
            if len(queries) == 1:
                return [await _rows(connection, queries[0])]
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                return [await _rows(connection, query) for query in queries]

        with failure.translated():
            return await self._links.run(work)

    async def fetch(self, statement: str, parameters: Mapping[str, Any]) -> list[Any]:
        with failure.translated():
            return await self._links.run(lambda connection: run(connection, statement, parameters))

    # -- search -------------------------------------------------------------------------------------------------------

    async def index(self) -> int:
        return await self._search.follow_all(lambda: not self._closing)

    async def search(self, query: Search) -> list[Message]:
        return await self._search.search(query)

    # -- operations ---------------------------------------------------------------------------------------------------

    async def check(self) -> list[tuple[str, bool, str]]:
        try:
            [(version, workspaces, read_only, now)] = await self.fetch("check", {})
        except WakelineError as error:
            return [("store", False, error.message)]
        state = "read only" if read_only else "writable"
        skew = now - self._clock()
        return [
            ("store", not read_only, f"PostgreSQL {version}, {workspaces} workspaces, {state}"),
            (
                "clock",
                abs(skew) < _CLOCK_TOLERANCE,
                f"the database's clock is {skew / 1_000_000:+.3f} s from this node's",
            ),
            # Not a reason to send nobody here: without it, messages come a second later.
            ("doorbell", True, self._line.describe()),
        ]

    async def close(self) -> None:
        self._closing = True
        await self._writer.close()
        await self._line.close()
        await self._links.close()
        await self._writing.close()


async def _rows(connection: Connection, query: Query[Any]) -> list[Any]:
    make = type(query).row
    return [make(*row) for row in await run(connection, query.statement(), msgspec.structs.asdict(query))]


async def _change(connection: Connection, name: str, given: Mapping[str, Any]) -> int:
    statement = statements.load("postgres", name)
    tag = await connection.execute(statement.text, *(given[key] for key in statement.parameters))
    return int(tag.rpartition(" ")[2])
