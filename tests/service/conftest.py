"""A hub over a real store whose reads can be counted and made to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.builders import open_workspace
from tests.store.places import SqlitePlace
from wakeline.core.log import Workspace
from wakeline.core.queries import Query
from wakeline.service import Hub
from wakeline.store.sqlite.store import SqliteStore


class Halting(SqliteStore):
    """A store whose reads wait when they are told to, as they would in a pool of threads."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.reading = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.reads = 0

    async def read_together(self, *queries: Query[Any]) -> list[list[Any]]:
        self.reads += 1
        found = await super().read_together(*queries)
        self.reading.set()
        await self.go_on.wait()
        return found


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Halting]:
    place = SqlitePlace(tmp_path)
    store = Halting(place.file, lambda: place.now)
    yield store
    await store.close()


@pytest.fixture
async def workspace(store: Halting) -> Workspace:
    return await open_workspace(store, "@ann", "@bob", "@cat")


@pytest.fixture
async def hub(store: Halting, workspace: Workspace) -> Hub:
    hub = Hub(store)
    await hub.start()
    return hub
