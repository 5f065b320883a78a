from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.faces.http_calls import Actor, address, error_of, head, new_agent, operator
from tests.faces.listener import Event, Listener
from wakeline.testing.server import ServerProcess

BIG = "x" * 200_000


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with little room for streams, and little patience."""
    data = tmp_path_factory.mktemp("narrow") / "data"
    with ServerProcess(data, stream_buffer=8, max_streams=6, keepalive_seconds=0.1) as process:
        yield process


class Sleeper:
    """A listener that opens a stream and then does not read."""

    def __init__(self, actor: Actor, after: str | None = None) -> None:
        self.connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.connection.settimeout(20)
        self.connection.connect(address(actor.server))
        path = "/v1/events" if after is None else f"/v1/events?after={after}"
        self.connection.sendall(head("GET", path, actor.token))
        self.received = self.connection.recv(600)
        assert b"200 OK" in self.received

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def wake(self) -> bytes:
        """Read what was sent before the server hung up."""
        try:
            while chunk := self.connection.recv(65_536):
                self.received += chunk
        except ConnectionResetError:
            pass
        return self.received


def last_whole_id(received: bytes) -> str | None:
    """The id of the last event that arrived whole, as a client would remember it."""
    text = b"".join(unchunk(received.partition(b"\r\n\r\n")[2])).decode()
    whole = text.rpartition("\n\n")[0]
    ids = [line.removeprefix("id: ") for line in whole.split("\n") if line.startswith("id: ")]
    return ids[-1] if ids else None


def unchunk(data: bytes) -> Iterator[bytes]:
    while data:
        size, _, rest = data.partition(b"\r\n")
        if not size:
            return
        length = int(size, 16)
        yield rest[:length]
        data = rest[length + 2 :]


def test_an_idle_stream_shows_life(narrow: ServerProcess) -> None:
    with Listener(new_agent(narrow)) as stream:
        assert stream.wait_for_comment() == ": keep-alive"
        assert stream.wait_for_comment() == ": keep-alive"


@pytest.mark.guarantee("G-SLOW-READER")
def test_a_slow_reader_is_cut_off_alone_and_resumes_without_a_gap(narrow: ServerProcess) -> None:
    alice, bob, carol = (new_agent(narrow, name) for name in ("alice", "bob", "carol"))
    count = 40
    with Sleeper(bob) as sleeper, Listener(bob) as awake, Listener(carol) as other:
        heard: list[Event] = []
        reading = threading.Thread(target=lambda: heard.extend(awake.take(count)))
        reading.start()
        for n in range(count):
            alice.send(bob, body=f"{n} {BIG}")
        alice.send(carol, body="nobody else noticed")
        assert len(other.take_until("nobody else noticed")) == 1
        reading.join()
        assert [str(event.body).partition(" ")[0] for event in heard] == [str(n) for n in range(count)]
        received = sleeper.wake()
        assert len(received) < count * len(BIG)  # it was cut off
        last = last_whole_id(received) or awake.headers["wakeline-position"]
    missed = [event for event in heard if event.log_id > int(last.rpartition("-")[2])]
    assert missed
    with Listener(bob, last_event_id=last) as again:
        assert again.take(len(missed)) == missed


@pytest.mark.guarantee("G-NO-SILENT-GAP")
def test_a_stream_ends_when_what_it_has_yet_to_catch_up_with_is_pruned(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", loop_turn_limit=0) as server:
        alice, bob = new_agent(server, "alice"), new_agent(server, "bob")
        sent = [alice.send(bob, body=f"{n} {BIG if n < 100 else ''}")["log_id"] for n in range(160)]
        with Listener(bob, after="0") as stream:
            operator(server).post("/v1/prune", keep=1)  # the sockets between hold less than the first page
            events = []
            while (event := stream.next()) is not None:
                events.append(event)
        heard = [event.log_id for event in events if event.kind == "message.posted"]
        assert heard == sent[: len(heard)]
        assert len(heard) < len(sent)
        with Listener(bob, last_event_id=events[-1].id) as again:
            assert again.refusal is not None
            error_of(again.refusal, "POSITION_EXPIRED")
        assert "Traceback" not in server.output


def test_streams_are_limited_and_room_comes_back(narrow: ServerProcess) -> None:
    agent = new_agent(narrow)
    _until_free(narrow)
    for _ in range(30):
        agent.send("@me", body=BIG)
    with ExitStack() as opened:
        for _ in range(3):
            opened.enter_context(Sleeper(agent, after="0"))  # who catches up counts as well
            opened.enter_context(Listener(agent))
        with Listener(agent) as refused:
            assert refused.refusal is not None
            assert refused.status == 429
            error_of(refused.refusal, "TOO_MANY_STREAMS")
        assert b"wakeline_streams 6.0" in narrow.call("GET", "/metrics").body
        agent.send("@me", body="everything else goes on")
    _until_free(narrow)
    with Listener(agent) as admitted:
        assert admitted.status == 200


def _until_free(server: ServerProcess) -> None:
    deadline = time.monotonic() + 20
    while operator(server).get("/v1/status")["streams"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_stream_on_the_unix_socket_is_the_operators(narrow: ServerProcess) -> None:
    _until_free(narrow)
    alice, bob = new_agent(narrow, "alice"), new_agent(narrow, "bob")
    with Listener(operator(narrow)) as stream:
        alice.send(bob, body="seen by the operator")
        stream.take_until("seen by the operator")


def test_a_server_that_stops_ends_its_streams_and_its_asks(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data").start()
    alice, bob = new_agent(server, "alice"), new_agent(server, "bob")
    asked: list[Any] = []
    asking = threading.Thread(target=lambda: asked.append(alice.send(bob, wait_seconds=50)))
    with Listener(bob) as one, Listener(operator(server)) as two:
        asking.start()
        one.take(1)
        began = time.monotonic()
        stopping = threading.Thread(target=lambda: asked.append(server.stop()))
        stopping.start()
        one.wait_for_end()
        two.wait_for_end()
        asking.join()
        stopping.join()
    assert time.monotonic() - began < 8
    [code] = [one for one in asked if isinstance(one, int)]
    [answer] = [one for one in asked if not isinstance(one, int)]
    assert code == 0, server.output
    assert answer["reply"] is None
    assert "Traceback" not in server.output


@pytest.mark.guarantee("G-SLOW-READER")
def test_a_server_stops_in_spite_of_a_reader_that_does_not_read(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", drain_seconds=1).start()
    agent = new_agent(server)
    for _ in range(20):
        agent.send("@me", body=BIG)
    with Sleeper(agent, after="0"):
        began = time.monotonic()
        assert server.stop() == 0, server.output
        assert time.monotonic() - began < 10
