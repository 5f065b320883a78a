"""Another program holds the database, or another server the data directory: clear words, then work goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.hardship import PATIENCE, refused_start
from tests.chaos.mail import Mail
from wakeline.testing.server import ServerProcess

pytestmark = pytest.mark.slow

HOLD = """
import sys, apsw

connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def _held(database: Path) -> Iterator[None]:
    """Somebody's SQLite shell, in the middle of a transaction."""
    command = [sys.executable, "-c", HOLD, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.stdin.close()
            holder.wait(PATIENCE)


@pytest.mark.guarantee("G-TROUBLE")
def test_a_database_held_by_another_program_refuses_posts_serves_reads_and_recovers(server: ServerProcess) -> None:
    mail = Mail(server)
    mail.post()
    with _held(server.data / "wakeline.db"):
        # The first one waits for the other program; if all of them did, this test would run into its time limit.
        for _ in range(40):
            refused = mail.post(idempotency_key="once")
            assert (refused.status, refused.code) == (503, "STORE_BUSY")
            assert "idempotency_key" in refused.json()["error"]["hint"]
        assert mail.received() == mail.sent
        assert server.call("GET", "/readyz").status == 503
    assert mail.post(idempotency_key="once").status == 201
    assert server.call("GET", "/readyz").status == 200
    assert mail.received() == mail.sent


def test_a_post_waits_for_a_program_that_holds_the_database_for_a_moment(server: ServerProcess) -> None:
    mail = Mail(server)
    with ThreadPoolExecutor() as pool:
        with _held(server.data / "wakeline.db"):
            waiting = [pool.submit(mail.post) for _ in range(8)]
            assert server.call("GET", "/v1/status").status == 200
        assert [one.result().status for one in waiting] == [201] * 8
    assert sorted(mail.received()) == sorted(mail.sent)


def test_a_server_does_not_start_on_a_database_that_another_program_holds(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        mail = Mail(server)
        mail.post()
    with _held(server.data / "wakeline.db"):
        refused_start(server.data).names("STORE_BUSY")
    with server:
        assert mail.received() == mail.sent


@pytest.mark.guarantee("G-ONE-SERVER")
def test_a_second_server_on_one_directory_is_refused_by_the_first_s_pid(server: ServerProcess) -> None:
    mail = Mail(server)
    refusal = refused_start(server.data)
    refusal.names("STORE_LOCKED")
    assert f"pid {server.pid}" in refusal.said
    assert mail.post().status == 201  # and the first never noticed
    assert server.call("GET", "/v1/status").status == 200


@pytest.mark.guarantee("G-ONE-SERVER")
def test_a_second_server_starts_as_soon_as_the_first_was_killed(server: ServerProcess) -> None:
    mail = Mail(server)
    mail.post()
    server.kill()
    with ServerProcess(server.data) as second:
        assert second.pid != server.pid
        mail.server = second
        assert mail.received() == mail.sent
