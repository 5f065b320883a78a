"""A full disk refuses new mail clearly, keeps the old, and is over when there is space again."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.hardship import fill, refused_start, small_disk
from tests.chaos.mail import Mail
from tests.chaos.writers import SETTINGS
from wakeline.store.sqlite.room import IN_USE_COMMITS, PIECE
from wakeline.testing.server import ServerProcess

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "8m") as path:
        yield path


@pytest.mark.guarantee("G-TROUBLE")
def test_a_full_disk_refuses_posts_serves_reads_and_recovers(disk: Path) -> None:
    with ServerProcess(disk / "data", **SETTINGS) as server:
        mail = Mail(server)
        mail.post()
        fill(disk / "ballast")
        refused = mail.post_until_refused()
        assert (refused.status, refused.code) == (503, "STORE_FULL")
        assert "disk space" in refused.json()["error"]["hint"]
        assert refused.json()["error"]["retryable"] is True
        assert mail.received() == mail.sent
        assert server.call("GET", "/readyz").status == 503
        assert mail.post(idempotency_key="once").code == "STORE_FULL"
        (disk / "ballast").unlink()
        first = mail.post(idempotency_key="once")
        assert first.status == 201
        assert mail.post(idempotency_key="once").json() == first.json()
        mail.sent.pop()  # the same message, answered twice
        assert server.call("GET", "/readyz").status == 200
        assert mail.received() == mail.sent
    with server:
        assert mail.received() == mail.sent


@pytest.mark.guarantee("G-DURABLE")
def test_a_server_killed_on_a_full_disk_has_lost_nothing(disk: Path) -> None:
    server = ServerProcess(disk / "data", **SETTINGS).start()
    mail = Mail(server)
    assert mail.post_until_refused().code == "STORE_FULL"
    server.kill()
    (disk / "data" / "search.db").unlink()  # derived; deleting it makes the room that starting needs
    with server:
        assert mail.received() == mail.sent


def test_a_server_cannot_start_on_a_full_disk_and_says_so(disk: Path) -> None:
    (disk / "data").mkdir()
    fill(disk / "ballast")
    refused_start(disk / "data").names("STORE_FULL")
    (disk / "ballast").unlink()
    with ServerProcess(disk / "data") as server:
        assert Mail(server).post().status == 201


def test_a_full_disk_still_takes_what_fits_into_the_room_of_the_log(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "512m") as disk, ServerProcess(disk / "data", **SETTINGS) as server:
        mail = Mail(server)
        for _ in range(IN_USE_COMMITS + 8):
            mail.post()
        assert (disk / "data" / "wakeline.db-wal").stat().st_size > 8 * len(PIECE)
        fill(disk / "ballast")
        before = len(mail.sent)
        refused = mail.post_until_refused()
        assert len(mail.sent) > before
        assert refused.status == 503
        assert refused.code == "STORE_FULL"
        assert mail.received() == mail.sent
        (disk / "ballast").unlink()
        assert mail.post().status == 201
        assert mail.received() == mail.sent


@pytest.mark.guarantee("G-TROUBLE")
def test_a_disk_that_fails_to_write_is_a_clear_error_until_it_works_again(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", **SETTINGS) as server:
        mail = Mail(server)
        mail.post()
        writer = server.writer_pid
        _, hard = resource.prlimit(writer, resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        refused = mail.post_until_refused()
        assert (refused.status, refused.code) == (503, "STORE_UNAVAILABLE")
        assert "idempotency_key" in refused.json()["error"]["hint"]
        assert mail.received() == mail.sent
        assert server.call("GET", "/readyz").status == 503
        resource.prlimit(writer, resource.RLIMIT_FSIZE, (hard, hard))
        assert mail.post().status == 201
        assert server.call("GET", "/readyz").status == 200
        assert mail.received() == mail.sent
    with server:
        assert mail.received() == mail.sent
