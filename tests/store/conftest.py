from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.store.builders import open_workspace
from tests.store.places import Place, PostgresPlace, SqlitePlace, blank_postgres, empty, shared_postgres
from wakeline.core.log import Workspace
from wakeline.core.store import Store


@pytest.fixture(scope="session")
def _shared() -> Iterator[str]:
    with shared_postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty database of our schema, once in SQLite and once in PostgreSQL."""
    if request.param == "sqlite":
        return SqlitePlace(tmp_path)
    url: str = request.getfixturevalue("_shared")
    empty(url)
    return PostgresPlace(url)


@pytest.fixture
async def store(place: Place) -> AsyncIterator[Store]:
    yield await place.open()
    await place.close()


@pytest.fixture
async def workspace(store: Store) -> Workspace:
    """The workspace `default` with @human, and the agents @ann, @bob and @cat."""
    return await open_workspace(store, "@ann", "@bob", "@cat")


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqlitePlace]:
    place = SqlitePlace(tmp_path)
    yield place
    await place.close()


@pytest.fixture
def _emptied(_shared: str) -> str:
    empty(_shared)
    return _shared


@pytest.fixture
async def postgres(_emptied: str) -> AsyncIterator[PostgresPlace]:
    place = PostgresPlace(_emptied)
    yield place
    await place.close()


@pytest.fixture
def _blank() -> Iterator[str]:
    with blank_postgres() as url:
        yield url


@pytest.fixture
async def blank(_blank: str) -> AsyncIterator[PostgresPlace]:
    """A database without a schema."""
    place = PostgresPlace(_blank)
    yield place
    await place.close()


@pytest.fixture
async def bare(postgres: PostgresPlace) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of no store, for what others do to the database."""
    connection = await postgres.connect()
    yield connection
    await connection.close()
