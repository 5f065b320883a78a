"""From a post to its webhook, one poster: beside a bare signed POST to the same receiver plus one fsync."""

from __future__ import annotations

import http.client
import json
import os
import socket
import tempfile
import threading
import time
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

from bench.load import Line
from bench.results import Figure, figure
from bench.rounds import Plan, isolated, median, quantile, take_turns
from bench.servers import UNLIMITED, Session, enrol, port_of, request, text
from wakeline.core.signature import signed_headers
from wakeline.testing.server import ServerProcess

NAME = "webhook"
UNIT = "ms"
WARM_UP = 30
PAUSE_SECONDS = 0.005  # one event at a time: what is settled of the last one is not in the way of the next
BURST = 1_000
BURST_WINDOW = 20  # seconds; long enough for the burst
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_KEY = b"k" * 32
_SETTINGS: dict[str, Any] = {**UNLIMITED, "webhook_allow": "127.0.0.0/8", "wake_budget_per_hour": 1_000_000}


class Receiver:
    """Takes one request per connection, notes when it was whole, and answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.taken = threading.Event()
        self.taken_at = 0.0
        self.count = 0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/wake"

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        got = b""
        while b"\r\n\r\n" not in got:
            got += connection.recv(65_536)
        head, _, body = got.partition(b"\r\n\r\n")
        [length] = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        while len(body) < length:
            body += connection.recv(65_536)
        self.taken_at = time.perf_counter()
        self.count += 1
        connection.sendall(_ANSWER)
        self.taken.set()

    def wait(self) -> float:
        if not self.taken.wait(30):
            raise RuntimeError("no webhook came")
        self.taken.clear()
        return self.taken_at


def from_post(port: int, sender: str, receiver: str, handle: str, posts: int) -> list[float]:
    """Seconds from the first byte of each post to the last byte of its webhook."""
    taker, line = Receiver(), http.client.HTTPConnection("127.0.0.1", port)
    route = {"url": taker.url, "coalesce_window": 0}
    made = _call(line, receiver, "POST", "/v1/wake-subscriptions",
                 {"trigger": "SENT_TO_ME", "harness_target_metadata": route})  # fmt: skip
    messages = ({"to": [handle], "body": text(str(number))} for number in range(997))
    poster = Line(
        port, [request("POST", "/v1/messages", sender, json.dumps(message).encode()) for message in messages], 201
    )
    took = []
    for _ in range(WARM_UP + posts):
        poster.exchange()
        took.append(taker.wait() - poster.sent_at)
        time.sleep(PAUSE_SECONDS)
    _call(line, receiver, "DELETE", f"/v1/wake-subscriptions/{made['subscription_id']}", None)
    return took[WARM_UP:]


def _call(line: http.client.HTTPConnection, token: str, method: str, path: str, body: Any) -> Any:
    line.request(method, path, None if body is None else json.dumps(body), {"Authorization": f"Bearer {token}"})
    answer = line.getresponse()
    document = json.loads(answer.read())
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise RuntimeError(f"{method} {path}: {document}")
    return document


def bare(posts: int) -> list[float]:
    """Seconds from signing to the last byte of a POST of an event, on a new connection as ours."""
    taker, took = Receiver(), []
    body = json.dumps({"eventType": "wake/sent_to_me", "payload": {"subject": "x" * 400}}).encode()
    for number in range(WARM_UP + posts):
        began = time.perf_counter()
        headers = signed_headers(f"event-{number}", "subscription", int(time.time()), body, [_KEY])
        line = http.client.HTTPConnection("127.0.0.1", taker.port)
        line.request("POST", "/wake", body, {"Content-Type": "application/json", **headers})
        line.getresponse().read()
        line.close()
        took.append(taker.wait() - began)
        time.sleep(PAUSE_SECONDS)
    return took[WARM_UP:]


def synced(folder: Path, times: int) -> list[float]:
    """Seconds to append a page to a file and have it on disk."""
    took = []
    with (folder / "page").open("ab", buffering=0) as file:
        for _ in range(WARM_UP + times):
            began = time.perf_counter()
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
            time.sleep(PAUSE_SECONDS)
    return took[WARM_UP:]


def burst(port: int, sender: str, receiver: str, handle: str) -> int:
    """How many webhooks a thousand messages to one agent make, by the end of the window after the first."""
    taker, line = Receiver(), http.client.HTTPConnection("127.0.0.1", port)
    route = {"url": taker.url, "coalesce_window": BURST_WINDOW}
    _call(line, receiver, "POST", "/v1/wake-subscriptions",
          {"trigger": "SENT_TO_ME", "harness_target_metadata": route})  # fmt: skip
    for number in range(BURST):
        _call(line, sender, "POST", "/v1/messages", {"to": [handle], "body": f"message {number}"})
    time.sleep(BURST_WINDOW + 2)
    return taker.count


def measure(plan: Plan) -> list[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wakeline-bench-")))
        server = stack.enter_context(ServerProcess(folder / "data", **_SETTINGS))
        sender, one, other = enrol(Session(server), "agent", 3)
        port = port_of(server)
        contenders = {
            "post": lambda: _p50(isolated(from_post, port, sender.token, one.token, one.handle, plan.posts)),
            "bare": lambda: _p50(isolated(bare, plan.posts)),
            "fsync": lambda: _p50(isolated(synced, folder, plan.posts)),
        }
        took = {name: median(all_) for name, all_ in take_turns(NAME, plan.rounds, contenders, UNIT).items()}
        rung = isolated(burst, port, sender.token, other.token, other.handle)
    note = f"reference: a bare signed POST ({took['bare']:.2f} ms) + one fsync ({took['fsync']:.2f} ms)"
    return [
        figure(f"{NAME}: post to receipt, p50", took["post"], took["bare"] + took["fsync"], UNIT, note, at_most=3),
        figure(f"{NAME}: wakes of a burst", rung, BURST, "wakes", f"{BURST:,} messages within one window of "
               f"{BURST_WINDOW} s: the first wake and one digest", at_most=2 / BURST),
    ]  # fmt: skip


def _p50(took: list[float]) -> float:
    return quantile(took, 0.5) * 1000
