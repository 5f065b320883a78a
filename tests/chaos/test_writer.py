"""The process that writes may die at any moment: what was answered is there, and the server goes on by itself."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.chaos.ledger import Ledger
from tests.chaos.mail import Mail
from tests.chaos.witness import Witness, retry
from tests.chaos.writers import SETTINGS, Team, load
from wakeline.testing.server import ServerProcess

pytestmark = pytest.mark.slow

ROUNDS = 10


@pytest.mark.guarantee("G-DURABLE")
@pytest.mark.timeout(300)
def test_kill_9_of_the_writer_under_eight_writers_loses_nothing(tmp_path: Path, dice: random.Random) -> None:
    with ServerProcess(tmp_path / "data", **SETTINGS) as server:
        team = Team(server)
        ledger = Ledger(team.handles)
        witness = Witness(team, ledger)
        for _ in range(ROUNDS):
            with load(server, team, ledger, dice) as stop:
                ledger.wait_for(dice.randrange(100))
                os.kill(server.writer_pid, signal.SIGKILL)
                ledger.wait_for(20)  # the next writer answers
                stop.set()
            witness.check(server)
        for attempt in [attempt for attempt in ledger.unanswered() if attempt.key is not None]:
            retry(server, team, attempt)
        witness.check(server)
        assert set(ledger.refusals) <= {"STORE_UNAVAILABLE"}


@pytest.mark.guarantee("G-TROUBLE")
def test_what_a_dying_writer_was_sent_is_said_to_be_uncertain(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", **SETTINGS) as server:
        mail = Mail(server)
        mail.post()
        os.kill(server.writer_pid, signal.SIGSTOP)
        os.kill(server.writer_pid, signal.SIGKILL)  # it never takes up what comes next
        answer = mail.post(idempotency_key="once")
        if answer.status != 201:  # it was sent before we knew
            error = answer.json()["error"]
            assert (error["code"], error["details"]["outcome"]) == ("STORE_UNAVAILABLE", "unknown")
        assert mail.post(idempotency_key="once").status == 201
        assert len(mail.received()) == 2


def test_nobody_waits_for_a_writer_that_does_not_come(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", **SETTINGS) as server:
        mail = Mail(server)
        mail.post()
        stop = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            killing = pool.submit(_kill_writers, server, stop)
            answers = [mail.post() for _ in range(200)]
            stop.set()
            killing.result()
        refused = [answer.json()["error"] for answer in answers if answer.status != 201]
        assert {error["code"] for error in refused} == {"STORE_UNAVAILABLE"}
        assert any("nothing was written" in error["message"] for error in refused)
        _wait_for_a_writer(mail)
        assert set(mail.sent) <= set(mail.received())


def _wait_for_a_writer(mail: Mail) -> None:
    for _ in range(100):
        if mail.post(idempotency_key="last").status == 201:
            return
        time.sleep(0.1)  # the next one is on its way
    pytest.fail("no writer came")


def _kill_writers(server: ServerProcess, stop: threading.Event) -> None:
    """Each as soon as it can be seen."""
    while not stop.is_set():
        with suppress(ValueError, OSError):  # there is none just now
            os.kill(server.writer_pid, signal.SIGKILL)


def test_the_writer_goes_when_the_server_is_killed(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", **SETTINGS).start()
    writer = server.writer_pid
    server.kill()  # waits until nobody holds its output any more
    assert not Path(f"/proc/{writer}/cmdline").exists() or not Path(f"/proc/{writer}/cmdline").read_bytes()
