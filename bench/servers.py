"""Real servers under load: started as child processes, with principals, threads and requests made beforehand."""

from __future__ import annotations

import http.client
import json
import random
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from wakeline.testing.server import ServerProcess

ROOT = Path(__file__).parent.parent
CLIENTS = 64
BUSY_THREADS = 100
BODY_BYTES = 1024
# One sender must be able to post as fast as it can.
# The guards count as ever, and are never reached: a load repeats itself.
UNREACHED = 1_000_000_000
UNLIMITED: dict[str, Any] = {
    "rate_per_second": 10_000_000,
    "rate_burst": 1_000_000_000,
    "log_level": "warning",
    "loop_turn_limit": UNREACHED,
    "loop_repeat_limit": UNREACHED,
}
# A first search after a million posts indexes them.
PATIENCE_SECONDS = 1800


def real_server(data: Path, database: str = "") -> ServerProcess:
    return ServerProcess(data, database=database, **UNLIMITED)


def noop_server(data: Path) -> ServerProcess:
    """The same server, except that a post is answered without being made."""
    command = [sys.executable, "-m", "bench.noop_server"]
    return ServerProcess(data, command=command, environ={"PYTHONPATH": str(ROOT)}, **UNLIMITED)


def port_of(server: ServerProcess) -> int:
    return int(server.url.rpartition(":")[2])


class Session:
    """Calls over kept connections: as the operator, or as whoever the token names."""

    def __init__(self, server: ServerProcess) -> None:
        self._connect = {False: server.connect, True: server.connect_unix}
        self._open = {operator: connect() for operator, connect in self._connect.items()}

    def call(self, method: str, path: str, body: dict[str, Any] | None = None, token: str | None = None) -> Any:
        try:
            return self._call(method, path, body, token)
        except http.client.RemoteDisconnected:  # it was idle for too long
            self._open = {operator: connect() for operator, connect in self._connect.items()}
            return self._call(method, path, body, token)

    def _call(self, method: str, path: str, body: dict[str, Any] | None, token: str | None) -> Any:
        connection = self._open[token is None]
        connection.timeout = PATIENCE_SECONDS
        if connection.sock is not None:
            connection.sock.settimeout(PATIENCE_SECONDS)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer: http.client.HTTPResponse = connection.getresponse()
        document = json.loads(answer.read())
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise RuntimeError(f"{method} {path}: {document}")
        return document

    def settle(self, token: str) -> None:
        """Wait until the search index has caught up, so that it does not run into the next measurement."""
        self.call("GET", "/v1/search?q=settled", token=token)


class Agent(msgspec.Struct, frozen=True):
    handle: str
    token: str


class Scene(msgspec.Struct, frozen=True):
    """Agents, and the threads that each of them may post into."""

    agents: list[Agent]
    threads: list[list[str]]

    def requests(self) -> list[list[bytes]]:
        """One list per agent: a post into each of its threads."""
        pairs = zip(self.agents, self.threads, strict=True)
        return [[post(agent.token, thread_id) for thread_id in threads] for agent, threads in pairs]


def enrol(session: Session, prefix: str, count: int) -> list[Agent]:
    handles = [f"@{prefix}{number}" for number in range(count)]
    return [Agent(handle, session.call("POST", "/v1/agents", {"handle": handle})["token"]) for handle in handles]


def make_scene(session: Session) -> Scene:
    """64 agents and 100 threads of three members each, so a post makes two unread entries."""
    agents = enrol(session, "agent", CLIENTS)
    threads: list[list[str]] = [[] for _ in agents]
    for number in range(BUSY_THREADS):
        places = [(number + step * CLIENTS // 3) % CLIENTS for step in range(3)]
        others = [agents[place].handle for place in places[1:]]
        body = {"title": f"busy {number}", "members": others}
        thread = session.call("POST", "/v1/threads", body, agents[places[0]].token)
        for place in places:
            threads[place].append(thread["thread_id"])
    return Scene(agents, threads)


@cache
def text(seed: str) -> str:
    """A body of 1 KB that looks like words."""
    dice = random.Random(seed)
    words = "".join(chr(dice.randrange(97, 123)) if dice.random() > 1 / 6 else " " for _ in range(BODY_BYTES))
    return words[1:] + "."


def post(token: str, thread_id: str) -> bytes:
    body = json.dumps({"thread_id": thread_id, "body": text(thread_id)}).encode()
    return request("POST", "/v1/messages", token, body)


def request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body
