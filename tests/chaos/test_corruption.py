"""A damaged file is named, never served as if it were whole, and takes nothing with it that was sound."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.chaos.hardship import refused_start
from tests.chaos.mail import Mail
from tests.chaos.witness import get
from tests.faces.command_line import Shell
from wakeline.testing.server import ServerProcess

pytestmark = pytest.mark.slow

PAGE = 4096
Damage = Callable[[Path, random.Random], None]


def _header(data: Path, dice: random.Random) -> None:
    _overwrite(data / "wakeline.db", 0, dice.randbytes(100))


def _middle_pages(data: Path, dice: random.Random) -> None:
    pages = (data / "wakeline.db").stat().st_size // PAGE
    for page in range(pages // 2, pages // 2 + 10):
        _overwrite(data / "wakeline.db", page * PAGE, dice.randbytes(PAGE))


def _cut_in_half(data: Path, dice: random.Random) -> None:
    with (data / "wakeline.db").open("r+b") as file:
        file.truncate((data / "wakeline.db").stat().st_size // PAGE // 2 * PAGE)


def _another_file(data: Path, dice: random.Random) -> None:
    (data / "wakeline.db").write_text("dear diary\n" * 1000)


def _overwrite(path: Path, offset: int, garbage: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(garbage)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mail, Path]:
    """A data directory with mail in it, stopped cleanly."""
    with ServerProcess(tmp_path_factory.mktemp("sound") / "data") as server:
        mail = Mail(server)
        for _ in range(40):
            mail.post()
    return mail, server.data


@pytest.fixture
def data(sound: tuple[Mail, Path], tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(sound[1], tmp_path / "data"))


@pytest.mark.guarantee("G-DAMAGE")
@pytest.mark.parametrize("damage", [_header, _middle_pages, _cut_in_half, _another_file])
def test_a_damaged_database_is_refused(
    sound: tuple[Mail, Path], data: Path, dice: random.Random, damage: Damage
) -> None:
    damage(data, dice)
    refused_start(data).names("STORE_CORRUPT")
    # The hint is a way out: a backup put in its place.
    human = Shell({"WAKELINE_DATA": str(data)})
    assert human.run("restore", str(sound[1] / "wakeline.db"), "--force").code == 0
    mail = sound[0]
    with ServerProcess(data) as mail.server:
        assert mail.received() == mail.sent


@pytest.mark.guarantee("G-DAMAGE")
def test_a_damaged_write_ahead_log_is_refused(tmp_path: Path, dice: random.Random) -> None:
    server = ServerProcess(tmp_path / "data").start()
    mail = Mail(server)
    mail.post()
    server.kill()
    log = server.data / "wakeline.db-wal"
    whole = log.read_bytes()
    log.write_bytes(dice.randbytes(len(whole)))
    refused_start(server.data).names("STORE_CORRUPT")
    log.write_bytes(whole)
    with server:
        assert mail.received() == mail.sent


@pytest.mark.guarantee("G-DURABLE")
def test_a_torn_end_of_the_write_ahead_log_costs_nothing_that_was_answered(tmp_path: Path, dice: random.Random) -> None:
    server = ServerProcess(tmp_path / "data").start()
    mail = Mail(server)
    mail.post()
    server.kill()
    with (server.data / "wakeline.db-wal").open("ab") as log:
        log.write(dice.randbytes(3 * PAGE + 17))
    with server:
        assert mail.received() == mail.sent


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "wakeline.db").touch()
    with ServerProcess(tmp_path / "data") as server:
        mail = Mail(server)
        mail.post()
        assert mail.received() == mail.sent


@pytest.mark.parametrize("damage", [_header, _middle_pages, _cut_in_half, _another_file])
def test_a_damaged_search_index_is_built_again(data: Path, dice: random.Random, damage: Damage) -> None:
    with ServerProcess(data) as server:
        get(server, "/v1/search?q=word")
    (data / "wakeline.db").rename(data / "aside")
    (data / "search.db").rename(data / "wakeline.db")
    damage(data, dice)
    (data / "wakeline.db").rename(data / "search.db")
    (data / "aside").rename(data / "wakeline.db")
    with ServerProcess(data) as server:
        assert get(server, "/v1/search?q=word&limit=100")["messages"] == []


def test_damage_met_while_running_is_told_and_the_rest_is_served(server: ServerProcess, dice: random.Random) -> None:
    mail = Mail(server)
    lost = mail.post("secretword " + "y" * 3000).json()
    for _ in range(40):
        mail.post("y" * 3000)
    other = server.call("POST", "/v1/messages", {"to": ["@sender"], "body": "to myself"}).json()
    database = server.data / "wakeline.db"
    _overwrite(database, _leaf_with(database, b"secretword") * PAGE, dice.randbytes(PAGE))
    answer = server.call("GET", f"/v1/threads/{lost['thread_id']}/messages")
    assert (answer.status, answer.code) == (503, "STORE_CORRUPT")
    assert "restore" in answer.json()["error"]["hint"]
    assert server.call("GET", f"/v1/threads/{other['thread_id']}/messages").status == 200
    assert mail.post().status == 201
    assert server.call("GET", "/healthz").status == 200
    assert server.stop() == 0
    assert "Traceback" not in server.output
    refused_start(server.data).names("STORE_CORRUPT")


def _leaf_with(database: Path, word: bytes) -> int:
    """The page that holds this message now; other pages may hold what is left of it from before it moved."""
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    leaves: list[Any] = connection.execute(
        "SELECT pageno - 1 FROM dbstat WHERE name = 'messages' AND pagetype = 'leaf'"
    ).fetchall()
    connection.close()
    content = database.read_bytes()
    [page] = [page for (page,) in leaves if word in content[page * PAGE : (page + 1) * PAGE]]
    assert isinstance(page, int)
    return page
