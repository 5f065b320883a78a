"""Where stores live in tests: a file or a database, in which any number of stores can be opened one after another."""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from tests.databases import postgres_url
from wakeline.core.instant import SECOND
from wakeline.store.postgres.connection import Server
from wakeline.store.postgres.migration import prepare
from wakeline.store.postgres.store import PostgresStore
from wakeline.store.sqlite.store import SqliteStore

START = 1_800_000_000 * SECOND
_numbers = count(1)
_run = uuid4().hex[:8]


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
def postgres_place() -> Iterator[PostgresPlace]:
    """The run's one migrated database, emptied: a new one for each test would take ten times as long."""
    url = _shared()
    asyncio.run(_execute(_EMPTY, url))
    yield PostgresPlace(url)


@contextmanager
def blank_postgres_place() -> Iterator[PostgresPlace]:
    """A database of its own in which nothing was ever done."""
    name = f"wakeline_{_run}_{next(_numbers)}"
    asyncio.run(_execute(f"CREATE DATABASE {name} TEMPLATE template0"))
    try:
        yield PostgresPlace(_url_of(name))
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


@cache
def _shared() -> str:
    if "WAKELINE_TEST_DATABASE" not in os.environ:
        # This server is ours and its machine does not lose power.
        asyncio.run(_execute("ALTER SYSTEM SET fsync = off"))
        asyncio.run(_execute("SELECT pg_reload_conf()"))
    name = f"wakeline_{_run}"
    asyncio.run(_execute(f"CREATE DATABASE {name} TEMPLATE template0"))
    asyncio.run(prepare(Server.parse(_url_of(name))))
    atexit.register(lambda: asyncio.run(_execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")))
    return _url_of(name)


def _url_of(name: str) -> str:
    return urlunsplit(urlsplit(postgres_url())._replace(path=f"/{name}"))


async def _execute(statement: str, url: str | None = None) -> None:
    connection = await asyncpg.connect(url or postgres_url())
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
