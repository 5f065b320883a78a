"""A node that cannot decrypt what it finds refuses to start, and changes nothing."""

from __future__ import annotations

import shutil
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from tests.databases import fresh_postgres
from tests.faces.command_line import Result, Shell
from tests.faces.http_calls import new_agent
from wakeline.testing.server import ServerProcess


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield ""
    else:
        with fresh_postgres() as url:
            yield url


def refused(server: ServerProcess, **environ: str) -> Result:
    where = {"WAKELINE_DATABASE": server.database} if server.database else {}
    return Shell({**server.environ, **where, **environ}).run("up", "--port", "0", "-o", "json")


@pytest.mark.guarantee("G-KEY")
def test_a_restored_database_without_its_key_is_refused_until_the_key_is_there(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with ServerProcess(tmp_path / "data") as server:
        agent = new_agent(server, "alice")
        Shell(server.environ).json("backup", str(copy))
    restored = ServerProcess(tmp_path / "restored")
    Shell(restored.environ).json("restore", str(copy))
    refusal = refused(restored)
    assert (refusal.code, refusal.error()["code"]) == (5, "KEY_MISMATCH")
    assert str(restored.data / "key") in refusal.error()["message"]
    assert not (restored.data / "key").exists()  # a new one would open nothing
    shutil.copy(server.data / "key", restored.data)
    with restored:
        assert restored.call("GET", "/v1/whoami", token=agent.token).json()["handle"] == agent.handle


@pytest.mark.guarantee("G-KEY")
def test_a_key_file_that_was_lost_is_not_made_anew(tmp_path: Path, database: str) -> None:
    server = ServerProcess(tmp_path / "data", database=database)
    with server:
        agent = new_agent(server, "alice")
    key = (server.data / "key").rename(tmp_path / "kept")
    refusal = refused(server)
    assert (refusal.code, refusal.error()["code"]) == (5, "KEY_MISMATCH")
    assert not (server.data / "key").exists()
    shutil.copy(key, server.data / "key")
    with server:
        assert server.call("GET", "/v1/whoami", token=agent.token).status == 200


@pytest.mark.guarantee("G-KEY")
@pytest.mark.parametrize("other", [urlsafe_b64encode(bytes(32)).decode(), "too short"])
def test_another_key_is_refused(tmp_path: Path, database: str, other: str) -> None:
    key = Fernet.generate_key().decode()
    server = ServerProcess(tmp_path / "data", database=database, key=key)
    with server:
        agent = new_agent(server, "alice")
    refusal = refused(server, WAKELINE_KEY=other)
    assert (refusal.code, refusal.error()["code"]) == (5, "KEY_MISMATCH")
    assert other not in refusal.err
    with server:
        assert server.call("GET", "/v1/whoami", token=agent.token).status == 200
