"""Where stores live in tests: a file or a database, in which any number of stores can be opened one after another."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg

from tests.databases import postgres_url
from wakeline.core.instant import SECOND
from wakeline.store.postgres.connection import Server
from wakeline.store.postgres.migration import prepare
from wakeline.store.postgres.store import PostgresStore
from wakeline.store.sqlite.store import SqliteStore

START = 1_800_000_000 * SECOND


class SqlitePlace:
    """`now` is its clock; move it as you like."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "wakeline.db"
        self.now = START
        self._open: list[SqliteStore] = []

    async def open(self) -> SqliteStore:
        store = await SqliteStore.open(self.file, lambda: self.now)
        self._open.append(store)
        return store

    async def close(self) -> None:
        while self._open:
            await self._open.pop().close()


class PostgresPlace:
    """Every store that is opened here is one more node."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._open: list[PostgresStore] = []

    async def open(self) -> PostgresStore:
        store = await PostgresStore.open(self.url, lambda: START, poll_seconds=0.05)
        self._open.append(store)
        return store

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """A bare connection, for what no store would do."""
        return await asyncpg.connect(self.url)

    async def close(self) -> None:
        while self._open:
            await self._open.pop().close()


Place = SqlitePlace | PostgresPlace


@contextmanager
def shared_postgres() -> Iterator[str]:
    """One migrated database for the whole run: a new one for each test would take ten times as long."""
    if "WAKELINE_TEST_DATABASE" not in os.environ:
        # This server is ours and its machine does not lose power.
        asyncio.run(_execute("ALTER SYSTEM SET fsync = off"))
        # What the planner knows of a table must not depend on whether somebody happened to look at it meanwhile.
        asyncio.run(_execute("ALTER SYSTEM SET autovacuum = off"))
        asyncio.run(_execute("SELECT pg_reload_conf()"))
    with blank_postgres() as url:
        asyncio.run(prepare(Server.parse(url)))
        yield url


@contextmanager
def blank_postgres() -> Iterator[str]:
    """A database in which nothing was ever done."""
    name = f"wakeline_{uuid4().hex}"
    asyncio.run(_execute(f"CREATE DATABASE {name} TEMPLATE template0"))
    try:
        yield urlsplit(postgres_url())._replace(path=f"/{name}").geturl()
    finally:
        asyncio.run(_execute(f"DROP DATABASE {name} WITH (FORCE)"))


# DELETE, because TRUNCATE makes new files for every table and index.
_EMPTY = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend';
DO $$ DECLARE name text; BEGIN
  FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'migrations' LOOP
    EXECUTE 'DELETE FROM ' || quote_ident(name);
  END LOOP;
END $$
"""


def empty(url: str) -> None:
    asyncio.run(_execute(_EMPTY, url))


async def _execute(statement: str, url: str | None = None) -> None:
    connection = await asyncpg.connect(url or postgres_url())
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
