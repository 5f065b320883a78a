from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.store.builders import open_workspace
from tests.store.places import Place, PostgresPlace, SqlitePlace, postgres_place
from wakeline.core.log import Workspace
from wakeline.core.store import Store


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty database of our schema, once in SQLite and once in PostgreSQL."""
    if request.param == "sqlite":
        yield SqlitePlace(tmp_path)
    else:
        with postgres_place() as place:
            yield place


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
def database() -> Iterator[PostgresPlace]:
    with postgres_place() as place:
        yield place


@pytest.fixture
async def postgres(database: PostgresPlace) -> AsyncIterator[PostgresPlace]:
    yield database
    await database.close()
