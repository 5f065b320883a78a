"""The store over SQLite: the one writer, readers, and the search index, behind the one interface."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import apsw

from wakeline.core.appended import Appended
from wakeline.core.message import Message
from wakeline.core.queries import Query
from wakeline.core.store import Command, Doorbell, FollowUp, Hear, HearFollowed, Making, Search, Wants
from wakeline.errors import WakelineError
from wakeline.store.chores import Chores, Step
from wakeline.store.sqlite.apart import ProcessWriter
from wakeline.store.sqlite.connection import connect, prepare, translated
from wakeline.store.sqlite.reading import execute, rows
from wakeline.store.sqlite.search import SearchIndex
from wakeline.store.sqlite.writer import ThreadWriter, Writer

A = TypeVar("A")
R = TypeVar("R")

# A keyed read of at most this many rows is done on the event loop: a thread would cost four times as much.
INLINE_LIMIT = 100
_SCANS = frozenset({"status_figures", "unrung_subscriptions", "pulses_due", "thread_voices"})
_STRETCHES = frozenset({"wake_messages", "wake_rows", "unblocked"})


class SqliteStore(Chores):
    def __init__(self, database: Path, clock: Callable[[], int], *, apart: bool = False) -> None:
        self._clock = clock
        self._doorbells: list[tuple[Doorbell, Hear | None, Wants | None]] = []
        writing = prepare(database, clock())
        self._reading = connect(database, readonly=True)
        self._search = SearchIndex(database.with_name("search.db"), database)
        self._database = database
        self._pool = ThreadPoolExecutor(max_workers=3, thread_name_prefix="wakeline-reader")
        self._pooled: list[apsw.Connection] = []
        self._closing = False
        self._hear_followed: HearFollowed = lambda _followed: None
        self._expect_followed: HearFollowed = lambda _followed: None
        self._writer: Writer
        if apart:
            writing.close()
            self._writer = ProcessWriter(database, clock, self._ring, self._wanted, self._expect)
        else:
            self._writer = ThreadWriter(writing, clock, self._ring, self._wanted)

    @classmethod
    async def open(cls, database: Path, clock: Callable[[], int], *, apart: bool = False) -> SqliteStore:
        """`apart`: what is written is written by a process of its own, as a server wants it."""
        return cls(database, clock, apart=apart)

    # -- writing ------------------------------------------------------------------------------------------------------

    def submit(self, command: Command[A] | Making[A]) -> asyncio.Future[A]:
        return self._writer.submit(command)

    async def transact(self, steps: Sequence[Step]) -> list[int]:
        counts: list[int] = await self._writer.submit(tuple(steps))
        return counts

    def on_commit(self, doorbell: Doorbell, hear: Hear | None = None, wants: Wants | None = None) -> None:
        self._doorbells.append((doorbell, hear, wants))

    def _wanted(self) -> bool:
        return any(wants() for _, _, wants in self._doorbells if wants is not None)

    def follow_up(self, follow_up: FollowUp, hear: HearFollowed, expect: HearFollowed) -> None:
        self._hear_followed, self._expect_followed = hear, expect
        self._writer.follow_up = follow_up

    def _ring(self, batch: Sequence[Appended], followed: Sequence[Any]) -> None:
        if followed:
            self._hear_followed(followed)
        for appended in batch:
            for doorbell, hear, _ in self._doorbells:
                if hear is None or not hear(appended):
                    doorbell(appended.workspace_id)

    def _expect(self, followed: Sequence[Any]) -> None:
        self._expect_followed(followed)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def now(self) -> int:
        return self._clock()

    async def read(self, query: Query[R]) -> list[R]:
        [found] = await self.read_together(query)
        return found

    async def read_together(self, *queries: Query[Any]) -> list[list[Any]]:
        if all(_is_bounded(query) for query in queries):
            return self._read(self._reading, queries)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read_pooled, queries)

    def _read_pooled(self, queries: Sequence[Query[Any]]) -> list[list[Any]]:
        connection = self._pooled.pop() if self._pooled else connect(self._database, readonly=True)
        try:
            return self._read(connection, queries)
        finally:
            self._pooled.append(connection)

    def _read(self, connection: apsw.Connection, queries: Sequence[Query[Any]]) -> list[list[Any]]:
        with translated():
            if len(queries) == 1:
                return [rows(connection, queries[0])]
            connection.execute("BEGIN")
            try:
                return [rows(connection, query) for query in queries]
            finally:
                connection.execute("COMMIT")

    async def fetch(self, statement: str, parameters: Mapping[str, Any]) -> list[Any]:
        with translated():
            return execute(self._reading, statement, parameters).fetchall()

    # -- search -------------------------------------------------------------------------------------------------------

    async def index(self) -> int:
        """Follow to the end in the search index, and note how far that was."""
        tips: list[Any] = await self.fetch("all_workspaces", {})
        indexed = await asyncio.to_thread(self._search.follow, lambda: not self._closing)
        reached = [{"workspace_id": tip[0], "name": "search", "last_log_id": tip[4]} for tip in tips]
        await self.transact([("advance_consumer", cursor) for cursor in reached])
        return indexed

    async def search(self, query: Search) -> list[Message]:
        return await asyncio.to_thread(self._search.search, query, lambda: not self._closing)

    # -- operations ---------------------------------------------------------------------------------------------------

    async def check(self) -> list[tuple[str, bool, str]]:
        with translated():
            self._reading.execute("SELECT count(*) FROM workspaces").fetchall()
        if self._writer.trouble is None:
            await self.transact([])  # is the way to the lock free?
        else:
            await self.transact([("touch_workspaces", {})])  # a full disk shows only when something is written
        return [("store", True, f"SQLite {apsw.sqlite_lib_version()}, writable")]

    async def close(self) -> None:
        self._closing = True
        await self._writer.close()
        self._pool.shutdown()
        self._search.close()
        for connection in (*self._pooled, self._reading):
            connection.close()
        with suppress(WakelineError):  # who can write and is the last to close empties the write-ahead log
            connect(self._database).close()


def _is_bounded(query: Query[Any]) -> bool:
    limit = getattr(query, "limit", 1)
    if query.statement() in _STRETCHES:
        limit = query.until - query.after  # type: ignore[attr-defined]  # they are the ones that have both
    return limit <= INLINE_LIMIT and query.statement() not in _SCANS
