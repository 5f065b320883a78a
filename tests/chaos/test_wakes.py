"""A server that is killed while it wakes has lost no event, and woken nobody twice."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.databases import fresh_postgres
from tests.faces import mcp_calls
from wakeline.runtime.secrets import load_box
from wakeline.testing.server import ServerProcess

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("WAKELINE_CHAOS_ROUNDS", "50")) // 5 or 1
SETTINGS: dict[str, Any] = {
    "webhook_allow": "127.0.0.0/8",
    "lease_seconds": 15,
    "webhook_timeout_seconds": 2,
    "wake_budget_per_hour": 1_000_000,
    "log_level": "warning",
}


class Post(ThreadingHTTPServer):
    """Takes webhooks, sometimes slowly, and remembers each by its id."""

    daemon_threads = True

    def __init__(self, dice: random.Random) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.dice = dice
        self.got: dict[str, set[bytes]] = {}
        self.guard = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/wake"

    def taken(self) -> dict[str, set[str]]:
        """Message → the ids of the events that told of it by itself."""
        told: dict[str, set[str]] = {}
        with self.guard:
            for event_id, bodies in self.got.items():
                for body in bodies:
                    event = json.loads(body)
                    if "eventType" not in event:
                        told.setdefault(event["data"]["message_id"], set()).add(event_id)
                    elif event["eventType"] == "wake/sent_to_me":
                        told.setdefault(event["payload"]["messageId"], set()).add(event_id)
        return told


class _Taker(BaseHTTPRequestHandler):
    server: Post

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body).get("challenge")
        if asked is None:
            with self.server.guard:
                self.server.got.setdefault(self.headers["webhook-id"], set()).add(body)
            threading.Event().wait(self.server.dice.choice((0, 0, 0.02, 0.1)))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"challenge": asked}).encode())

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # the server was killed while we answered
            return

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def receiving(dice: random.Random) -> Iterator[Post]:
    post = Post(dice)
    thread = threading.Thread(target=post.serve_forever, daemon=True)
    thread.start()
    try:
        yield post
    finally:
        post.shutdown()
        thread.join()
        post.server_close()


Subscribe = Callable[[ServerProcess, str, str], None]  # (server, URL, token)


def as_webhook(server: ServerProcess, url: str, token: str) -> None:
    metadata = {"url": url, "coalesce_window": 0}
    request: dict[str, Any] = {"trigger": "SENT_TO_ME", "harness_target_metadata": metadata}
    assert server.call("POST", "/v1/wake-subscriptions", request, token=token).status == 201


def as_callback(server: ServerProcess, url: str, token: str) -> None:
    """Through `events/subscribe` of MCP."""
    place = {"mode": "webhook", "url": url, "secret": f"whsec_{'c2Vj' * 8}"}
    body, headers = mcp_calls.modern("events/subscribe", {"name": "inbox.mail", "delivery": place})
    assert "result" in mcp_calls.post(server, token, body, **headers).json()


def wake_under_kills(server: ServerProcess, dice: random.Random, post: Post, subscribe: Subscribe = as_webhook) -> None:
    accepted: list[str] = []
    with server:
        sender, receiver = server.add_agent("@sender"), server.add_agent("@receiver")
        subscribe(server, post.url, receiver)
    for _ in range(ROUNDS):
        server.start()
        for _ in range(dice.randrange(1, 12)):
            said = {"to": ["@receiver"], "body": f"text {len(accepted)}"}  # the same again and again is a loop
            answer = server.call("POST", "/v1/messages", said, token=sender)
            accepted.append(answer.json()["message_id"])
        threading.Event().wait(dice.uniform(0, 0.25))
        server.kill()
    with server:
        _drain(server, receiver, post, set(accepted))
    told = post.taken()
    assert set(told) == set(accepted)
    assert {message_id: ids for message_id, ids in told.items() if len(ids) > 1} == {}
    assert all(len(bodies) == 1 for bodies in post.got.values())


def _drain(server: ServerProcess, token: str, post: Post, wanted: set[str]) -> None:
    """A restart alone brings out what is left; a lease of the former life may have to run out first."""
    left: list[Any] = []
    for _ in range(600):
        left = server.call("GET", "/v1/deliveries?outcome=open", token=token).json()["deliveries"]
        if not left and post.taken().keys() >= wanted:
            return
        threading.Event().wait(0.1)
    raise AssertionError(f"{len(wanted - post.taken().keys())} events were not brought out: {left}")


@pytest.mark.guarantee("G-WAKE-ONCE")
@pytest.mark.timeout(300)
def test_kill_9_while_waking_loses_no_event_and_wakes_nobody_twice(tmp_path: Path, dice: random.Random) -> None:
    with receiving(dice) as post:
        wake_under_kills(ServerProcess(tmp_path / "data", **SETTINGS), dice, post)


@pytest.mark.timeout(300)
def test_kill_9_while_calling_back_loses_no_event_and_changes_no_byte(tmp_path: Path, dice: random.Random) -> None:
    with receiving(dice) as post:
        server = ServerProcess(tmp_path / "data", mcp_events="true", **SETTINGS)
        wake_under_kills(server, dice, post, as_callback)


@pytest.mark.guarantee("G-WAKE-ONCE")
@pytest.mark.timeout(300)
def test_kill_9_while_waking_on_postgresql(tmp_path: Path, dice: random.Random) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    load_box(data, "", make=True)
    with receiving(dice) as post, fresh_postgres() as url:
        wake_under_kills(ServerProcess(data, database=url, **SETTINGS), dice, post)
