"""A writer that nobody asks for anything brings its write-ahead log into the database: reads then pass it by."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.store.builders import UNGUARDED, agent, open_workspace, post, send, unread
from wakeline.core.log import Workspace
from wakeline.runtime import clock
from wakeline.store.sqlite.apart import QUIET_MICROSECONDS, ProcessWriter
from wakeline.store.sqlite.commits import WORTH_TIDYING_ROWS
from wakeline.store.sqlite.store import SqliteStore

PATIENCE_SECONDS = 30
QUIET_SECONDS = QUIET_MICROSECONDS / 1_000_000
KILLS = 5
ROOT = Path(__file__).parents[2]
UNLIMITED = msgspec.structs.replace(UNGUARDED, rate_per_second=1_000_000, rate_burst=1_000_000)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = await SqliteStore.open(tmp_path / "wakeline.db", clock.now, apart=True)
    yield made
    await made.close()


def frames(database: Path) -> tuple[int, int]:
    """How many frames the log holds, and how many of them are in the database: as the file of its index says it."""
    index = database.with_name(f"{database.name}-shm").read_bytes()
    [last], [brought] = struct.unpack_from("=I", index, 16), struct.unpack_from("=I", index, 96)
    return last, brought


async def write_much(store: SqliteStore, workspace: Workspace) -> int:
    """As many rows as are worth it: each post changes several."""
    posts = [post(agent(workspace, "@ann"), "@bob", rails=UNLIMITED) for _ in range(WORTH_TIDYING_ROWS)]
    await asyncio.gather(*(store.submit(one) for one in posts))
    return len(posts)


async def test_a_long_log_is_brought_into_the_database_when_it_is_quiet(
    store: SqliteStore, workspace: Workspace, tmp_path: Path
) -> None:
    database = tmp_path / "wakeline.db"
    sent = await write_much(store, workspace)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (now := frames(database))[0] != now[1]:  # noqa: ASYNC110 - the other side is a process of its own
            await asyncio.sleep(QUIET_SECONDS / 5)
    assert now[0] > 0
    assert await unread(store, agent(workspace, "@bob")) == sent
    await send(store, agent(workspace, "@ann"), "@bob")  # and it goes on from there
    assert await unread(store, agent(workspace, "@bob")) == sent + 1


async def test_a_few_rows_are_left_where_they_are(store: SqliteStore, workspace: Workspace, tmp_path: Path) -> None:
    await send(store, agent(workspace, "@ann"), "@bob")
    await asyncio.sleep(3 * QUIET_SECONDS)
    last, brought = frames(tmp_path / "wakeline.db")
    assert brought < last


async def test_a_writer_that_is_killed_while_it_tidies_up_loses_nothing(
    store: SqliteStore, workspace: Workspace
) -> None:
    dice, sent = random.Random(7), 0
    for _ in range(KILLS):
        sent += await write_much(store, workspace)
        await asyncio.sleep(QUIET_SECONDS * dice.uniform(0.95, 1.1))
        writer = store._writer  # noqa: SLF001 - whose process is to be killed
        assert isinstance(writer, ProcessWriter)
        os.kill(writer.pid, signal.SIGKILL)
        assert await unread(store, agent(workspace, "@bob")) == sent
        await asyncio.sleep(QUIET_SECONDS / 5)  # until the next writer is there
    await store.check()


FULL = """
import resource, sys
from pathlib import Path
from tests.store.builders import agent, post
from tests.store.test_tidying import UNLIMITED, frames
from wakeline.core.log import Workspace
from wakeline.runtime import clock
from wakeline.store.sqlite.commits import WORTH_TIDYING_ROWS, Commits
from wakeline.store.sqlite.connection import connect

database = Path(sys.argv[1])
workspace = Workspace(int(sys.argv[2]), "default", "e1", 0, 0, 1, 0)
commits = Commits(connect(database))

def write(count):
    posts = [post(agent(workspace, "@ann"), "@bob", rails=UNLIMITED) for _ in range(count)]
    outcomes, _, _ = commits.serve(posts, clock.now(), whole=False)
    assert not [one for one in outcomes if isinstance(one, Exception)], outcomes

write(WORTH_TIDYING_ROWS)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (database.stat().st_size, hard))
commits.tidy()
last, brought = frames(database)
assert brought < last, "it was meant to fail"
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
write(WORTH_TIDYING_ROWS)
commits.tidy()
last, brought = frames(database)
assert brought == last
"""


async def test_a_disk_that_is_full_is_for_the_next_commit_to_say(tmp_path: Path) -> None:
    database = tmp_path / "wakeline.db"
    store = await SqliteStore.open(database, clock.now)
    workspace = await open_workspace(store, "@ann", "@bob")
    await store.close()
    command = [sys.executable, "-c", FULL, str(database), str(workspace.workspace_id)]
    done = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
