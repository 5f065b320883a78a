"""Large batches are committed behind the next ones: nobody is answered early, and a failure undoes only its own."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import apsw
import msgspec
import pytest

from tests.store.builders import UNGUARDED, agent, inbox, log_of, open_workspace, post, send
from wakeline.core.log import Workspace
from wakeline.core.queries import AllWorkspaces
from wakeline.errors import Unavailable, WakelineError
from wakeline.flow.post import Accepted
from wakeline.runtime import clock
from wakeline.store.sqlite.apart import MANY, ProcessWriter
from wakeline.store.sqlite.commits import UNDER_WAY, Carried, Commits
from wakeline.store.sqlite.connection import connect
from wakeline.store.sqlite.store import SqliteStore

SOME = 5
PATIENCE_SECONDS = 30
KILLS = 6
PAUSE_SECONDS = 0.01
UNLIMITED = msgspec.structs.replace(UNGUARDED, rate_per_second=1_000_000, rate_burst=1_000_000)


class Batch:
    """Handed in to be committed behind; what is answered, and when."""

    def __init__(self, commits: Commits, workspace: Workspace, count: int = SOME) -> None:
        posts = [post(agent(workspace, "@ann"), "@bob") for _ in range(count)]
        self.answers: list[Accepted] = []
        self.failure: WakelineError | None = None
        self._answered = threading.Event()
        assert commits.serve(posts, clock.now(), whole=False, draft=self._draft, later=self._later) is UNDER_WAY

    def _draft(self, carried: Carried) -> None:
        self.answers, *_ = carried

    def _later(self, failure: WakelineError | None) -> None:
        self.failure = failure
        self._answered.set()

    @property
    def is_answered(self) -> bool:
        return self._answered.is_set()

    def wait(self) -> None:
        assert self._answered.wait(PATIENCE_SECONDS)


@pytest.fixture
async def workspace(tmp_path: Path) -> Workspace:
    store = await SqliteStore.open(tmp_path / "wakeline.db", clock.now)
    made = await open_workspace(store, "@ann", "@bob")
    await send(store, agent(made, "@ann"), "@bob")  # so that their thread is there
    await store.close()
    return made


@pytest.fixture
def connection(tmp_path: Path, workspace: Workspace) -> Iterator[apsw.Connection]:
    made = connect(tmp_path / "wakeline.db")
    yield made
    made.close()


@pytest.fixture
def commits(connection: apsw.Connection, workspace: Workspace) -> Commits:
    """Of a writer that knows everything that the next post will ask for."""
    made = Commits(connection)
    made.serve([post(agent(workspace, "@ann"), "@bob")], clock.now(), whole=False)
    return made


@pytest.fixture
async def reader(tmp_path: Path, workspace: Workspace) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "wakeline.db", clock.now)
    yield store
    await store.close()


def held(connection: apsw.Connection, *verdicts: bool) -> Callable[[], None]:
    """Its next commits wait until they are let go, and fail where the verdict says so."""
    gate, left = threading.Semaphore(0), iter(verdicts)

    def hook() -> bool:
        assert gate.acquire(timeout=PATIENCE_SECONDS)
        return next(left)

    connection.set_commit_hook(hook)
    return gate.release


async def test_nobody_is_answered_before_their_own_commit(
    commits: Commits, connection: apsw.Connection, workspace: Workspace, reader: SqliteStore
) -> None:
    before = len(await log_of(reader, workspace))
    let_go = held(connection, False, False)
    first = Batch(commits, workspace)
    second: list[Batch] = []
    handing_in = threading.Thread(target=lambda: second.append(Batch(commits, workspace)))
    handing_in.start()
    await asyncio.sleep(0.1)
    assert not first.is_answered
    assert not second, "the next one waits for the connection"
    assert len(await log_of(reader, workspace)) == before
    let_go()
    first.wait()
    await asyncio.to_thread(handing_in.join)
    assert len(await log_of(reader, workspace)) == before + SOME
    assert not second[0].is_answered
    let_go()
    second[0].wait()
    assert commits.finish()
    assert [one.seq for batch in (first, second[0]) for one in batch.answers] == [*range(3, 3 + 2 * SOME)]
    assert len(await log_of(reader, workspace)) == before + 2 * SOME


async def test_after_a_commit_that_failed_the_next_is_decided_again(
    commits: Commits, connection: apsw.Connection, workspace: Workspace, reader: SqliteStore
) -> None:
    let_go = held(connection, True, False)
    let_go()
    let_go()
    first = Batch(commits, workspace)
    second = Batch(commits, workspace)
    assert commits.finish()
    assert first.failure is not None
    assert second.failure is None
    assert commits.trouble is None
    assert [one.seq for one in second.answers] == [*range(3, 3 + SOME)], "as if the first had never been asked"
    assert [row.message.seq for row in await inbox(reader, agent(workspace, "@bob"))] == [*range(1, 3 + SOME)]
    [row] = await reader.read(AllWorkspaces())
    assert [entry.log.log_id for entry in await log_of(reader, workspace)] == [*range(1, row.last_log_id + 1)]


async def test_what_another_program_wrote_meanwhile_is_seen(
    commits: Commits, workspace: Workspace, reader: SqliteStore
) -> None:
    first = Batch(commits, workspace)
    first.wait()
    between = await send(reader, agent(workspace, "@ann"), "@bob")
    second = Batch(commits, workspace)
    assert commits.finish()
    assert between.seq == first.answers[-1].seq + 1
    assert second.answers[0].seq == between.seq + 1


@pytest.mark.guarantee("G-DURABLE")
async def test_a_writer_killed_under_many_posters_loses_and_doubles_nothing(
    tmp_path: Path, workspace: Workspace
) -> None:
    store = await SqliteStore.open(tmp_path / "wakeline.db", clock.now, apart=True)
    writer = store._writer  # noqa: SLF001 - whose process is to be killed
    assert isinstance(writer, ProcessWriter)
    answered: list[Accepted] = []
    unsure: list[Unavailable] = []
    stop, heard = asyncio.Event(), asyncio.Event()

    async def poster() -> None:
        while not stop.is_set():
            try:
                answered.append(await send(store, agent(workspace, "@ann"), "@bob", rails=UNLIMITED))
                heard.set()
            except Unavailable as error:
                unsure.append(error)
                await asyncio.sleep(PAUSE_SECONDS)

    async with asyncio.TaskGroup() as group:
        for _ in range(2 * MANY):
            group.create_task(poster())
        for _ in range(KILLS):
            heard.clear()  # the next writer is killed once it has answered
            await heard.wait()
            await asyncio.sleep(random.random() * 0.05)
            os.kill(writer.pid, signal.SIGKILL)
        stop.set()
    found = {row.message.message_id: row.message.seq for row in await inbox(store, agent(workspace, "@bob"))}
    log = [entry.log.log_id for entry in await log_of(store, workspace)]
    await store.close()
    assert unsure, "no kill hit anything"
    assert {one.message_id: one.seq for one in answered}.items() <= found.items()
    assert sorted(found.values()) == [*range(1, len(found) + 1)]
    assert len(found) <= 1 + len(answered) + len(unsure)
    assert log == [*range(1, len(log) + 1)]
