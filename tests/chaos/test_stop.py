"""SIGTERM under load: what was answered is stored, what was not is cut off cleanly, and the exit code is 0."""

from __future__ import annotations

import http.client
import random
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.chaos.hardship import eventually
from tests.chaos.ledger import PATIENCE, Ledger
from tests.chaos.mail import Mail
from tests.chaos.witness import Witness, retry
from tests.chaos.writers import GONE, SETTINGS, Team, load
from wakeline.testing.server import ServerProcess

pytestmark = pytest.mark.slow


def _stopped_cleanly(server: ServerProcess) -> None:
    assert server.stop() == 0
    assert "Traceback" not in server.output, server.output
    assert not (server.data / "run" / "wakeline.sock").exists()


@pytest.mark.guarantee("G-DURABLE")
def test_a_server_stopped_under_load_has_stored_what_it_answered(tmp_path: Path, dice: random.Random) -> None:
    server = ServerProcess(tmp_path / "data", **SETTINGS).start()
    team = Team(server)
    ledger = Ledger(team.handles)
    witness = Witness(team, ledger)
    for _ in range(4):
        with load(server, team, ledger, dice):
            ledger.wait_for(dice.randrange(100))
            _stopped_cleanly(server)
        server.start()
        witness.check(server)
        for attempt in [attempt for attempt in ledger.unanswered() if attempt.key is not None]:
            retry(server, team, attempt)
        witness.check(server)
    server.stop()


class Listener:
    """An event stream, read to its end."""

    def __init__(self, server: ServerProcess, token: str) -> None:
        self._connection = server.connect()
        self._connection.request("GET", "/v1/events?after=0", headers={"Authorization": f"Bearer {token}"})
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self.heard = threading.Event()

    def read(self) -> bytes:
        """To the end; raises IncompleteRead if it was torn off instead of ended."""
        lines = []
        try:
            for line in self._answer:
                lines.append(line)
                if b"message.posted" in line:
                    self.heard.set()
        finally:
            self._connection.close()
        return b"".join(lines)


def test_open_streams_end_when_the_server_stops(server: ServerProcess) -> None:
    mail = Mail(server)
    listeners = [Listener(server, mail.receiver) for _ in range(20)]
    assert {listener.status for listener in listeners} == {200}
    with ThreadPoolExecutor(len(listeners)) as pool:
        reading = [pool.submit(listener.read) for listener in listeners]
        mail.post("the last word")
        assert all(listener.heard.wait(PATIENCE) for listener in listeners)
        _stopped_cleanly(server)
        for one in reading:
            assert b"the last word" in one.result(PATIENCE)


def test_streams_that_come_back_at_once_do_not_keep_a_server_from_stopping(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", drain_seconds=5).start()
    mail = Mail(server)
    connected = threading.Barrier(9)

    def listen_for_ever() -> None:
        try:
            listener = Listener(server, mail.receiver)
            connected.wait(PATIENCE)
            while listener.status == 200:
                listener.read()
                listener = Listener(server, mail.receiver)
            assert b"SHUTTING_DOWN" in listener.read()
        except GONE:
            return

    with ThreadPoolExecutor(8) as pool:
        listening: list[Future[None]] = [pool.submit(listen_for_ever) for _ in range(8)]
        connected.wait(PATIENCE)
        _stopped_cleanly(server)
        for one in listening:
            one.result(PATIENCE)


def test_a_question_still_waiting_for_its_answer_does_not_keep_a_server_from_stopping(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", drain_seconds=1).start()
    mail = Mail(server)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(mail.post, "are you there?", wait_seconds=50)
        eventually(mail.received, "the question is stored")
        assert server.stop() == 0
        error = asking.exception(PATIENCE)
        assert error is None or isinstance(error, GONE)
    with server:
        [question] = mail.bodies()
        assert question == "are you there?"


def test_a_request_that_comes_in_pieces_is_finished_or_refused(server: ServerProcess) -> None:
    """A slow sender's request, half of it before SIGTERM and the rest after."""
    mail = Mail(server)
    connection = server.connect()
    body = b'{"to": ["@receiver"], "body": "slow"}'
    connection.putrequest("POST", "/v1/messages")
    connection.putheader("Authorization", f"Bearer {mail.sender}")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body[:10])
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(server.stop)
        try:
            connection.send(body[10:])
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            status = 0
        finally:
            connection.close()
        assert stopping.result(PATIENCE) == 0
    assert status in (0, 201, 503)
    with server:
        assert mail.bodies() == (["slow"] if status == 201 else mail.bodies())
