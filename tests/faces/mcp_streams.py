"""Somebody who listens over MCP by hand: the GET stream of a session, or the answer to subscriptions/listen."""

from __future__ import annotations

import http.client
import json
import socket
import time
from types import TracebackType
from typing import Any, Self

from tests.faces.http_calls import Actor, address, head, operator
from tests.faces.mcp_calls import ACCEPT, initialize, modern, post, rpc

INBOX = "wakeline://inbox"


class Listening:
    """One open stream of JSON-RPC messages."""

    def __init__(
        self, actor: Actor, method: str, body: bytes | None, headers: dict[str, str], path: str = "/mcp"
    ) -> None:
        self._connection = actor.server.connect()
        given = {**ACCEPT, **headers, "Authorization": f"Bearer {actor.token}"}
        self._connection.request(method, path, body, given)
        self._answer: http.client.HTTPResponse = self._connection.getresponse()
        self.status = self._answer.status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._answer.close()
        self._connection.close()

    def next(self) -> Any:
        """The next message, or None when the stream has ended."""
        while line := self._answer.readline():
            if line.startswith(b"data: ") and line.strip() != b"data:":
                return json.loads(line.removeprefix(b"data: "))
        return None


def get_stream(actor: Actor, session: str, **headers: str) -> Listening:
    return Listening(actor, "GET", None, {"Mcp-Session-Id": session, **headers})


def listen(actor: Actor, *uris: str) -> Listening:
    body, headers = modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": list(uris or [INBOX])}})
    return Listening(actor, "POST", body, headers)


def open_session(actor: Actor, *, subscribe: bool = False, **capabilities: Any) -> str:
    session = initialize(actor, **capabilities)
    if subscribe:
        resource(actor, session, "subscribe")
    return session


def resource(actor: Actor, session: str, verb: str) -> None:
    """Subscribe to the inbox in a session, or unsubscribe."""
    answer = post(actor.server, actor.token, rpc(f"resources/{verb}", {"uri": INBOX}), Mcp_Session_Id=session)
    assert "result" in answer.json(), answer.body


def wake(kind: str = "wake/sent_to_me", **payload: Any) -> dict[str, Any]:
    return {
        "schemaVersion": "1.0",
        "eventType": kind,
        "eventId": "01JD3Z8Q0W4T6N9X2C5V7B1M3K",
        "logId": 7,
        "agentIdentity": "@bob",
        "subscriptionId": "01JD3Z8Q0W4T6N9X2C5V7B1M3S",
        "payload": payload,
        "emittedAt": "2026-11-16T00:00:00Z",
    }


def digest(*kinds: str) -> dict[str, Any]:
    return wake("wake/digest", breakdown={kind: {"count": 2, "latest": {}} for kind in kinds})


def push(actor: Actor, *events: dict[str, Any]) -> list[int]:
    """Offer wake events to the connections of an agent; answers how many took each."""
    answer = operator(actor.server).call("POST", "/test/push", {"handle": actor.handle, "events": list(events)})
    taken: list[int] = answer.json()
    return taken


def until_taken(actor: Actor, event: dict[str, Any], by: int = 1) -> None:
    """A session begins to listen a moment after its stream was opened, and ends a moment after it was closed."""
    deadline = time.monotonic() + 20
    while push(actor, event) != [by]:
        assert time.monotonic() < deadline


def best_route(actor: Actor) -> str:
    """What the server chooses now for the agent, for events that nothing makes in these tests."""
    made: str = actor.post("/v1/wake-subscriptions", trigger="NOTICE_ASSIGNED")["harness_target"]
    return made


def until_heard(actor: Actor) -> None:
    deadline = time.monotonic() + 20
    while best_route(actor) != "mcp-notifications":
        assert time.monotonic() < deadline


class Sleeper:
    """Opens a stream by hand and does not read."""

    def __init__(self, actor: Actor, method: str, body: bytes, headers: dict[str, str]) -> None:
        self.connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.connection.settimeout(40)
        self.connection.connect(address(actor.server))
        given = {**ACCEPT, **headers, "Content-Length": str(len(body))}
        self.connection.sendall(head(method, "/mcp", actor.token, **given) + body)
        assert b"200 OK" in self.connection.recv(400)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def wait_for_end(self) -> None:
        """Read what was on its way when the server gave up."""
        try:
            while self.connection.recv(65_536):
                pass
        except ConnectionResetError:
            pass
