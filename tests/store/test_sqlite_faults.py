"""SQLite's file is held, full, copied, put back or damaged: a clear error, nothing lost, recovery where possible."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from tests.store.builders import agent, inbox, log_of, open_workspace, send, unread
from tests.store.places import SqlitePlace
from wakeline.core.queries import WorkspaceById
from wakeline.core.store import Search
from wakeline.errors import InvalidArgument, Unavailable
from wakeline.store.sqlite import connection
from wakeline.store.sqlite.backup import DATABASE, backup, check, restore
from wakeline.store.sqlite.lock import DataLock

HOLD = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another_process(database: Path) -> Iterator[None]:
    """Another program has begun a write and does not finish it."""
    command = [sys.executable, "-c", HOLD, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.communicate("")


@pytest.fixture
def connections() -> Iterator[list[apsw.Connection]]:
    """Every connection that is opened, in order: a store's first one is its writer's."""
    opened: list[apsw.Connection] = []
    apsw.connection_hooks.append(opened.append)
    yield opened
    apsw.connection_hooks.remove(opened.append)


async def test_a_database_held_by_another_program_is_busy_and_then_works_again(
    sqlite: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_MILLISECONDS", 20)
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    with held_by_another_process(sqlite.file):
        with pytest.raises(Unavailable) as busy:
            await send(store, agent(workspace, "@ann"), "@bob", idempotency_key="k")
        assert busy.value.code == "STORE_BUSY"
        assert await unread(store, agent(workspace, "@bob")) == 0
    assert (await send(store, agent(workspace, "@ann"), "@bob", idempotency_key="k")).seq == 1


@pytest.mark.guarantee("G-ALONE")
async def test_everybody_in_a_failed_batch_gets_an_error_of_their_own(
    sqlite: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_MILLISECONDS", 20)
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    with held_by_another_process(sqlite.file):
        sending = (send(store, agent(workspace, "@ann"), "@bob") for _ in range(20))
        failures = await asyncio.gather(*sending, return_exceptions=True)
    assert {getattr(failure, "code", None) for failure in failures} == {"STORE_BUSY"}
    assert len({id(failure) for failure in failures}) == 20


async def test_a_full_disk_is_told_and_room_is_used_again(
    sqlite: SqlitePlace, connections: list[apsw.Connection]
) -> None:
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    writer = connections[0]
    pages = writer.pragma("page_count")
    writer.pragma("max_page_count", pages + 20)
    answered = []

    async def fill() -> None:
        while True:
            answered.append(await send(store, agent(workspace, "@ann"), "@bob", "x" * 4_000))

    with pytest.raises(Unavailable) as full:
        await fill()
    assert full.value.code == "STORE_FULL"
    assert await unread(store, agent(workspace, "@bob")) == len(answered) > 0
    writer.pragma("max_page_count", pages + 10_000)
    answered.append(await send(store, agent(workspace, "@ann"), "@bob", "x" * 4_000))
    assert [accepted.seq for accepted in answered] == list(range(1, len(answered) + 1))
    assert [entry.log.log_id for entry in await log_of(store, workspace)] == list(range(1, len(answered) + 3))


def test_a_second_server_is_refused(tmp_path: Path) -> None:
    with DataLock(tmp_path):
        with pytest.raises(Unavailable, match="served by another Wakeline") as refused:
            DataLock(tmp_path).acquire()
        assert refused.value.code == "STORE_LOCKED"
    with DataLock(tmp_path):
        pass


@pytest.mark.guarantee("G-COPIES")
async def test_a_backup_of_a_live_database_is_one_moment_of_it(
    sqlite: SqlitePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeline.store.sqlite.backup._PAGES_PER_STEP", 10)
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    sent = [await send(store, agent(workspace, "@ann"), "@bob", "x" * 4_000) for _ in range(20)]
    loop = asyncio.get_running_loop()
    steps: list[tuple[int, int]] = []

    def post_between_steps(done: int, total: int) -> None:
        steps.append((done, total))
        asyncio.run_coroutine_threadsafe(send(store, agent(workspace, "@ann"), "@bob", "later"), loop).result()

    await asyncio.to_thread(backup, sqlite.file, tmp_path / "copy", post_between_steps)
    assert len(steps) > 1
    assert steps[-1][0] == steps[-1][1]
    assert await unread(store, agent(workspace, "@bob")) == len(sent) + len(steps)

    assert check(tmp_path / "copy") == []
    restore(tmp_path / "copy", tmp_path / "restored", force=False)
    place = SqlitePlace(tmp_path / "restored")
    copy = await place.open()
    posted = [entry.log.subject for entry in await log_of(copy, workspace) if entry.log.kind == "message.posted"]
    assert posted == [accepted.message_id for accepted in sent]
    assert len(await inbox(copy, agent(workspace, "@bob"))) == len(sent)
    assert (await send(copy, agent(workspace, "@ann"), "@bob")).log_id == sent[-1].log_id + 1
    await place.close()


@pytest.mark.guarantee("G-EPOCH")
async def test_a_restored_copy_gets_a_new_epoch_and_keeps_what_was_there(sqlite: SqlitePlace, tmp_path: Path) -> None:
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    old = await send(store, agent(workspace, "@ann"), "@bob", "old needle")
    await store.index()
    backup(sqlite.file, tmp_path / "copy", lambda *_: None)
    await send(store, agent(workspace, "@ann"), "@bob", "new needle")
    await sqlite.close()

    with pytest.raises(InvalidArgument, match="exists"):
        restore(tmp_path / "copy", tmp_path, force=False)
    epoch = restore(tmp_path / "copy", tmp_path, force=True)
    store = await sqlite.open()
    [row] = await store.read(WorkspaceById(workspace.workspace_id))
    assert (row.epoch, row.last_log_id) == (epoch, old.log_id)
    assert epoch != old.epoch
    again = await send(store, agent(workspace, "@ann"), "@bob", "other needle")
    assert (again.log_id, again.epoch) == (old.log_id + 1, epoch)
    needles = await store.search(Search(workspace.workspace_id, ("needle",), "@human", True, None, None, 10))
    assert {found.body for found in needles} == {"old needle", "other needle"}
    [kept] = [path for path in tmp_path.iterdir() if "before-restore" in path.name]
    assert check(kept) == []


async def test_a_restore_is_refused_while_a_server_runs(sqlite: SqlitePlace, tmp_path: Path) -> None:
    await open_workspace(await sqlite.open())
    backup(sqlite.file, tmp_path / "copy", lambda *_: None)
    with DataLock(tmp_path), pytest.raises(Unavailable) as refused:
        restore(tmp_path / "copy", tmp_path, force=True)
    assert refused.value.code == "STORE_LOCKED"


async def make_database(sqlite: SqlitePlace) -> Path:
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    for _ in range(20):
        await send(store, agent(workspace, "@ann"), "@bob", "x" * 4_000)
    await sqlite.close()
    return sqlite.file


@pytest.mark.parametrize("damage", ["overwritten", "cut short", "no database at all"])
async def test_a_damaged_file_is_refused(sqlite: SqlitePlace, tmp_path: Path, damage: str) -> None:
    file = await make_database(sqlite)
    assert file.name == DATABASE
    content = file.read_bytes()
    match damage:
        case "overwritten":
            file.write_bytes(content[:8_192] + b"\xff" * 16_384 + content[24_576:])
        case "cut short":
            file.write_bytes(content[: len(content) // 2])
        case _:
            file.write_bytes(b"not a database" * 1_000)
    with pytest.raises(Unavailable) as refused:
        await sqlite.open()
    assert refused.value.code == "STORE_CORRUPT"
    assert check(file)
    with pytest.raises(Unavailable, match="damaged"):
        restore(file, tmp_path / "elsewhere", force=False)
    assert not (tmp_path / "elsewhere" / DATABASE).exists()


async def test_a_damaged_search_index_is_built_again(sqlite: SqlitePlace) -> None:
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    sent = await send(store, agent(workspace, "@ann"), "@bob", "needle")
    await store.index()
    await sqlite.close()
    sqlite.file.with_name("search.db").write_bytes(b"not a database" * 1_000)
    store = await sqlite.open()
    found = await store.search(Search(workspace.workspace_id, ("needle",), "@human", True, None, None, 10))
    assert [message.message_id for message in found] == [sent.message_id]


async def test_a_search_index_built_again_finds_what_was_pruned_from_the_log(sqlite: SqlitePlace) -> None:
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    sent = await send(store, agent(workspace, "@ann"), "@bob", "needle")
    await store.index()
    assert await store.prune(workspace.workspace_id, before=None, keep=0) == 3
    await sqlite.close()
    sqlite.file.with_name("search.db").unlink()
    store = await sqlite.open()
    found = await store.search(Search(workspace.workspace_id, ("needle",), "@human", True, None, None, 10))
    assert [message.message_id for message in found] == [sent.message_id]
