"""Backup and restore: a copy is whole whoever writes meanwhile, and a copy that is cut short changes nothing."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from tests.chaos.ledger import PATIENCE, Ledger
from tests.chaos.mail import Mail
from tests.chaos.witness import Witness, get
from tests.chaos.writers import SETTINGS, Team, load
from tests.faces.command_line import Shell
from wakeline.store.sqlite import backup as copies
from wakeline.testing.server import ServerProcess

pytestmark = pytest.mark.slow

SOCKETS = shutil.ignore_patterns("*.sock")  # which a killed server leaves behind, and nobody can copy


@pytest.mark.guarantee("G-COPIES")
def test_a_backup_under_writers_holds_everything_answered_before_it(tmp_path: Path, dice: random.Random) -> None:
    server = ServerProcess(tmp_path / "data", **SETTINGS).start()
    team = Team(server, size=4)
    ledger = Ledger(team.handles)
    human = Shell(server.environ)
    with load(server, team, ledger, dice):
        ledger.wait_for(300)
        before = [attempt for attempt in ledger.attempts.values() if attempt.answer is not None]
        human.json("backup", str(tmp_path / "copy.db"))
        ledger.wait_for(100)
    position = get(server, "/v1/status")["position"]
    server.stop()
    assert copies.check(tmp_path / "copy.db") == []
    restored = human.json("restore", str(tmp_path / "copy.db"), "--force")
    with server:
        witness = Witness(team, ledger)
        witness.follow(server)
        for attempt in before:
            witness.check_answered(attempt)
        assert get(server, "/v1/status")["epoch"] == restored["epoch"]
        gone = server.call("GET", f"/v1/log?after={position}")
        assert (gone.status, gone.code) == (410, "EPOCH_CHANGED")
    [kept] = server.data.glob("wakeline.db.before-restore-*")
    assert copies.check(kept) == []
    assert _state(kept).messages >= len([attempt for attempt in ledger.attempts.values() if attempt.answer])


# -- cut short --------------------------------------------------------------------------------------------------------

BACKUP = """
import os, signal, sys
from pathlib import Path
from wakeline.store.sqlite.backup import backup
backup(Path(sys.argv[1]), Path(sys.argv[2]), lambda done, total: os.kill(os.getpid(), signal.SIGKILL))
"""

# Every change of a name in a directory is a point at which a restore may die.
RESTORE = """
import os, signal, sys
from pathlib import Path
from wakeline.store.sqlite.backup import restore

left = int(sys.argv[3])
def hook(event, arguments):
    global left
    if event in ("os.rename", "os.remove", "os.link", "os.mkdir"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
print(restore(Path(sys.argv[1]), Path(sys.argv[2]), force=True))
"""


class State(NamedTuple):
    epoch: str
    messages: int


def _state(database: Path) -> State:
    assert copies.check(database) == []
    connection = apsw.Connection(str(database))
    rows: list[Any] = connection.execute("SELECT epoch, (SELECT count(*) FROM messages) FROM workspaces").fetchall()
    connection.close()
    return State(*rows[0])


def _run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mail, Path, Path]:
    """A data directory whose newest mail is only in the write-ahead log, and an older backup of it."""
    folder = tmp_path_factory.mktemp("killed")
    server = ServerProcess(folder / "data", **SETTINGS).start()
    mail = Mail(server)
    for _ in range(120):
        mail.post()
    copies.backup(server.data / "wakeline.db", folder / "copy.db", lambda _done, _total: None)
    for _ in range(10):
        mail.post()
    server.kill()
    shutil.rmtree(server.data / "run")  # a socket cannot be copied
    return mail, server.data, folder / "copy.db"


@pytest.mark.guarantee("G-COPIES")
def test_a_backup_that_is_killed_leaves_no_copy_and_an_untouched_database(
    killed: tuple[Mail, Path, Path], tmp_path: Path
) -> None:
    mail, source, _ = killed
    data = Path(shutil.copytree(source, tmp_path / "data", ignore=SOCKETS))
    target = tmp_path / "copy.db"
    assert _run(BACKUP, data / "wakeline.db", target).returncode == -signal.SIGKILL
    assert not target.exists()
    with ServerProcess(data) as mail.server:
        assert mail.received() == mail.sent
        copies.backup(data / "wakeline.db", target, lambda _done, _total: None)
    assert _state(target).messages == len(mail.sent)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "data"]


@pytest.mark.guarantee("G-COPIES")
def test_a_restore_that_is_killed_anywhere_leaves_the_old_or_the_new_database(
    killed: tuple[Mail, Path, Path], tmp_path: Path
) -> None:
    mail, source, copy = killed
    pristine = Path(shutil.copytree(source, tmp_path / "pristine", ignore=SOCKETS))
    old, new = _state(pristine / "wakeline.db"), _state(copy)
    assert new.messages < old.messages == len(mail.sent)
    for point in range(100):
        data = Path(shutil.copytree(source, tmp_path / str(point), ignore=SOCKETS))
        done = _run(RESTORE, copy, data, str(point))
        after = _state(data / "wakeline.db")
        assert after == old or (after.epoch != old.epoch and after.messages == new.messages), f"died at {point}"
        again = _run(RESTORE, copy, data, "1000")
        assert again.returncode == 0, again.stderr
        assert _state(data / "wakeline.db") == State(again.stdout.strip(), new.messages)
        assert not list(data.glob("*.incoming*"))
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert point > 3


def test_a_restore_over_a_running_server_is_refused(server: ServerProcess, tmp_path: Path) -> None:
    mail = Mail(server)
    mail.post()
    human = Shell(server.environ)
    human.json("backup", str(tmp_path / "copy.db"))
    refused = human.run("restore", str(tmp_path / "copy.db"), "--force", "-o", "json")
    assert refused.error()["code"] == "STORE_LOCKED"
    assert mail.post().status == 201
    assert mail.received() == mail.sent
