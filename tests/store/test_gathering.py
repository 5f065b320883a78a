"""Several who post at once: the server gathers what it sends to the writer, and nobody waits for more than a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.store.builders import agent, send
from wakeline.core.log import Workspace
from wakeline.runtime import clock
from wakeline.store.sqlite.apart import EMPTY_TURN_SECONDS
from wakeline.store.sqlite.store import SqliteStore

PATIENCE_SECONDS = 30
POSTERS, POSTS = 3, 20
APART_SECONDS = 0.0003


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = await SqliteStore.open(tmp_path / "wakeline.db", clock.now, apart=True)
    yield made
    await made.close()


@pytest.fixture
async def busy() -> AsyncIterator[None]:
    """No turn of the loop is empty."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def work() -> None:
        until = time.perf_counter() + 5 * EMPTY_TURN_SECONDS
        while time.perf_counter() < until:
            pass
        if not stop.is_set():
            loop.call_soon(work)

    work()
    yield
    stop.set()


async def take_turns(store: SqliteStore, workspace: Workspace) -> list[int]:
    async def write(number: int) -> list[int]:
        ann = agent(workspace, "@ann")
        await asyncio.sleep(number * APART_SECONDS)  # so that one is being written when the next one comes
        return [(await send(store, ann, "@bob")).log_id for _ in range(POSTS)]

    async with asyncio.timeout(PATIENCE_SECONDS):
        return [
            log_id for mine in await asyncio.gather(*(write(number) for number in range(POSTERS))) for log_id in mine
        ]


@pytest.mark.usefixtures("busy")
async def test_a_loop_that_is_never_idle_keeps_nobody_waiting(store: SqliteStore, workspace: Workspace) -> None:
    assert len(set(await take_turns(store, workspace))) == POSTERS * POSTS


async def test_a_loop_that_is_idle_keeps_nobody_waiting(store: SqliteStore, workspace: Workspace) -> None:
    assert len(set(await take_turns(store, workspace))) == POSTERS * POSTS


async def test_what_was_gathered_when_the_store_closes_is_written(store: SqliteStore, workspace: Workspace) -> None:
    ann = agent(workspace, "@ann")
    first = asyncio.create_task(send(store, ann, "@bob"))
    await asyncio.sleep(0)
    others = [asyncio.create_task(send(store, ann, "@bob")) for _ in range(POSTERS)]
    await asyncio.sleep(0)
    await store.close()
    assert len({(await one).log_id for one in (first, *others)}) == 1 + POSTERS
