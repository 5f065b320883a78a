"""Several who post at once: the server gathers what it sends to the writer, and nobody waits for more than a moment."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.store.builders import agent, inbox, post, send
from wakeline.core.log import Workspace
from wakeline.errors import Internal, InvalidArgument, Unavailable
from wakeline.flow.post import Accepted, Post
from wakeline.runtime import clock
from wakeline.store.sqlite.apart import EMPTY_TURN_SECONDS, ProcessWriter
from wakeline.store.sqlite.store import SqliteStore

PATIENCE_SECONDS = 30
POSTERS, POSTS = 3, 20
APART_SECONDS = 0.0003
REFUSED, BROKEN = (0, 7, 19), (3, 8)


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


async def test_a_command_is_made_once_and_what_making_it_raises_is_its_own(
    store: SqliteStore, workspace: Workspace
) -> None:
    ann, made = agent(workspace, "@ann"), []

    def making(number: int) -> Callable[[], Post]:
        def make() -> Post:
            made.append(number)
            if number in REFUSED:
                raise InvalidArgument("INVALID_ARGUMENT", f"number {number}")
            if number in BROKEN:
                raise StopIteration  # which no future takes
            return post(ann, "@bob", f"number {number}")

        return make

    async with asyncio.timeout(PATIENCE_SECONDS):
        answers = await asyncio.gather(*map(store.submit, map(making, range(POSTS))), return_exceptions=True)
    assert made == list(range(POSTS))
    assert [str(answers[number]) for number in REFUSED] == [f"number {number}" for number in REFUSED]
    assert all(isinstance(answers[number], Internal) for number in BROKEN)
    written = [number for number in made if number not in (*REFUSED, *BROKEN)]
    assert all(isinstance(answers[number], Accepted) for number in written)
    mail = await inbox(store, agent(workspace, "@bob"))
    assert [one.message.body for one in mail] == [f"number {number}" for number in written]


async def test_what_is_made_while_the_writer_dies_is_written_once_or_said_to_be_unknown(
    store: SqliteStore, workspace: Workspace
) -> None:
    ann = agent(workspace, "@ann")
    await send(store, ann, "@bob", "before")
    writer = store._writer  # noqa: SLF001 - whose process is to be killed
    assert isinstance(writer, ProcessWriter)
    os.kill(writer.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_SECONDS):
        making = [partial(post, ann, "@bob", f"number {number}") for number in range(POSTS)]
        answers = await asyncio.gather(*map(store.submit, making), return_exceptions=True)
        bodies = [one.message.body for one in await inbox(store, agent(workspace, "@bob"))]
    for number, answer in enumerate(answers):
        if isinstance(answer, Accepted):
            assert bodies.count(f"number {number}") == 1
        else:
            assert isinstance(answer, Unavailable)
            assert answer.details["outcome"] == "unknown"
            assert bodies.count(f"number {number}") <= 1
    assert isinstance(await store.submit(partial(post, ann, "@bob", "after")), Accepted)
