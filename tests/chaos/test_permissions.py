"""A server that may not write says so; one that loses the right while it runs loses nothing else."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.hardship import bound, refused_start
from tests.chaos.mail import Mail
from wakeline.testing.server import COMMAND, ServerProcess

pytestmark = pytest.mark.slow


@pytest.fixture
def home() -> Iterator[Path]:
    """Where the unprivileged user may write: pytest's own folders are closed to it."""
    path = Path(tempfile.mkdtemp(prefix="wakeline-"))
    os.chown(path, bound().user, bound().group)
    try:
        yield path
    finally:
        for folder in (path, path / "data"):
            if folder.exists():
                folder.chmod(0o700)
        shutil.rmtree(path)


@pytest.fixture
def server(home: Path) -> ServerProcess:
    """Not started, and bound by file permissions."""
    return ServerProcess(home / "data", command=(*bound().prefix, *COMMAND))


def _refused(server: ServerProcess) -> None:
    refused_start(server.data, command=(*bound().prefix, *COMMAND)).names("STORE_READ_ONLY")


def test_a_directory_that_cannot_be_made_is_named(server: ServerProcess) -> None:
    server.data.parent.chmod(0o555)
    _refused(server)


def test_a_directory_that_cannot_be_written_is_refused(server: ServerProcess) -> None:
    server.data.mkdir()
    server.data.chmod(0o555)
    _refused(server)


@pytest.mark.guarantee("G-TROUBLE")
def test_a_right_that_was_taken_away_is_missed_and_found_again(server: ServerProcess) -> None:
    with server:
        mail = Mail(server)
        mail.post()
    for name, mode in (("", 0o555), ("wakeline.db", 0o444), ("wakeline.db", 0), ("lock", 0o444), ("key", 0)):
        path = server.data / name
        before = path.stat().st_mode
        path.chmod(mode)
        _refused(server)
        path.chmod(before)
    with server:
        assert mail.post().status == 201
        assert mail.received() == mail.sent


def test_a_running_server_goes_on_with_the_files_it_has_open(server: ServerProcess) -> None:
    with server:
        mail = Mail(server)
        mail.post()
        (server.data / "wakeline.db").chmod(0o444)
        server.data.chmod(0o555)
        answer = mail.post()
        assert answer.status == 201 or answer.code == "STORE_READ_ONLY"
        assert mail.received() == mail.sent
        assert server.stop() == 0
    assert "Traceback" not in server.output
    _refused(server)
    server.data.chmod(0o700)
    (server.data / "wakeline.db").chmod(0o600)
    with server:
        assert mail.post().status == 201
        assert mail.received() == mail.sent
