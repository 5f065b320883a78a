"""A server that is killed at any moment has kept everything that it answered."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.chaos.ledger import PATIENCE, Ledger
from tests.chaos.witness import Witness, get, retry
from tests.chaos.writers import SETTINGS, Team, load
from tests.databases import fresh_postgres
from wakeline.runtime.secrets import load_box
from wakeline.testing.server import COMMAND, ServerProcess

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("WAKELINE_CHAOS_ROUNDS", "50"))
POSTGRES_ROUNDS = max(1, ROUNDS // 5)


class Survivor:
    """One data directory through many lives of its server."""

    def __init__(self, server: ServerProcess, dice: random.Random) -> None:
        self.server = server
        self._dice = dice
        with server:
            self._team = Team(server)
        self._ledger = Ledger(self._team.handles)
        self._witness = Witness(self._team, self._ledger)

    def round(self) -> None:
        if self._dice.random() < 0.1:
            self._die_while_starting()
        self.server.start()
        self._witness.check(self.server)
        self._repeat_unanswered()
        with load(self.server, self._team, self._ledger, self._dice):
            self._ledger.wait_for(self._dice.randrange(150))
            self.server.kill()

    def _die_while_starting(self) -> None:
        environ = {**self.server.environ, "WAKELINE_PORT": "0", "WAKELINE_DATABASE": self.server.database}
        with subprocess.Popen(COMMAND, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            threading.Event().wait(self._dice.uniform(0, 0.8))
            process.kill()

    def _repeat_unanswered(self) -> None:
        """With its key, a post that was never answered ends up there once, whether it was there already or not."""
        for attempt in [attempt for attempt in self._ledger.unanswered() if attempt.key is not None]:
            was_there = self._witness.has(attempt)
            tip = get(self.server, "/v1/status")["position"]
            retry(self.server, self._team, attempt)
            assert (get(self.server, "/v1/status")["position"] == tip) == was_there

    def check_all(self) -> None:
        """From the very beginning, once more."""
        with self.server:
            Witness(self._team, self._ledger).check(self.server)
            last = [attempt for attempt in self._ledger.attempts.values() if attempt.answer is not None][-1]
            found = get(self.server, f"/v1/search?q={last.mark}")
            assert len(found["messages"]) == 1


@pytest.mark.guarantee("G-DURABLE")
@pytest.mark.timeout(600)
def test_kill_9_under_eight_writers_loses_nothing(tmp_path: Path, dice: random.Random) -> None:
    survivor = Survivor(ServerProcess(tmp_path / "data", **SETTINGS), dice)
    for _ in range(ROUNDS):
        survivor.round()
    survivor.check_all()


@pytest.mark.guarantee("G-DURABLE")
@pytest.mark.timeout(600)
def test_kill_9_loses_nothing_on_postgres(tmp_path: Path, dice: random.Random) -> None:
    with fresh_postgres() as url:
        survivor = Survivor(ServerProcess(tmp_path / "data", database=url, **SETTINGS), dice)
        for _ in range(POSTGRES_ROUNDS):
            survivor.round()
        survivor.check_all()


MAKE_KEY = """
import os, signal, sys
from pathlib import Path
from wakeline.runtime.secrets import load_box
left = int(sys.argv[2])
def hook(event, arguments):
    global left
    if event in ("open", "os.rename"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
load_box(Path(sys.argv[1]), "", make=True)
"""


def test_a_first_start_that_is_killed_while_it_makes_its_key_starts_again(tmp_path: Path) -> None:
    for point in range(20):
        data = tmp_path / str(point)
        data.mkdir()
        done = subprocess.run([sys.executable, "-c", MAKE_KEY, data, str(point)], check=False, timeout=PATIENCE)
        box = load_box(data, "", make=True)
        assert load_box(data, "", make=True).decrypt(box.encrypt(b"secret")) == b"secret"
        if done.returncode == 0:
            break
    assert point > 1
