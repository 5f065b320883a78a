"""Room that is made in the write-ahead log: there when it is used, harmless when the writer or the disk is not."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

from tests.store.builders import agent, open_workspace, send, unread
from wakeline.core.log import Workspace
from wakeline.runtime import clock
from wakeline.store.sqlite.apart import ProcessWriter
from wakeline.store.sqlite.room import ENOUGH_BYTES, IN_USE_COMMITS, PIECE, Room
from wakeline.store.sqlite.store import SqliteStore

MESSAGES = 3
FULL = """
import sys
from pathlib import Path
from wakeline.store.sqlite import room
made = room.Room(Path(sys.argv[1]))
for _ in range(room.IN_USE_COMMITS + 2):
    made.make()
"""


async def used(store: SqliteStore, workspace: Workspace) -> None:
    for _ in range(IN_USE_COMMITS + MESSAGES):
        await send(store, agent(workspace, "@ann"), "@bob")


def log_of(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


async def test_a_log_in_use_gets_room_and_a_killed_writer_leaves_nothing_behind_but_that(tmp_path: Path) -> None:
    database = tmp_path / "wakeline.db"
    store = await SqliteStore.open(database, clock.now, apart=True)
    workspace = await open_workspace(store, "@ann", "@bob")
    assert log_of(database).stat().st_size < len(PIECE)
    await used(store, workspace)
    assert log_of(database).stat().st_size > MESSAGES * len(PIECE)
    writer = store._writer  # noqa: SLF001 - whose process is to be killed
    assert isinstance(writer, ProcessWriter)
    os.kill(writer.pid, signal.SIGKILL)
    await store.close()
    again = await SqliteStore.open(database, clock.now)
    assert await unread(again, agent(workspace, "@bob")) == IN_USE_COMMITS + MESSAGES
    await send(again, agent(workspace, "@ann"), "@bob")
    await again.close()


def test_room_is_made_up_to_a_checkpoint_and_no_further(tmp_path: Path) -> None:
    log = tmp_path / "some.db-wal"
    log.touch()
    room = Room(tmp_path / "some.db")
    for _ in range(IN_USE_COMMITS + ENOUGH_BYTES // len(PIECE) + 5):
        room.make()
    assert ENOUGH_BYTES <= log.stat().st_size < ENOUGH_BYTES + len(PIECE)


def test_a_log_that_is_not_there_is_left_alone(tmp_path: Path) -> None:
    room = Room(tmp_path / "some.db")
    for _ in range(IN_USE_COMMITS + 1):
        room.make()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_keeps_what_it_has_and_nobody_fails(tmp_path: Path) -> None:
    log = tmp_path / "some.db-wal"
    log.write_bytes(b"frames")

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(b"frames"), len(b"frames")))

    subprocess.run([sys.executable, "-c", FULL, str(tmp_path / "some.db")], check=True, preexec_fn=limited)
    assert log.read_bytes() == b"frames"
