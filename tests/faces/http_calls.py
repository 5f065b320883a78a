"""Somebody who talks HTTP to a real server, and the few things that every HTTP test asks of one."""

from __future__ import annotations

import json
import socket
import uuid
from typing import Any
from urllib.parse import urlencode

from wakeline.errors import CATALOGUE
from wakeline.faces.http.operation import Operation
from wakeline.testing.server import Answer, ServerProcess

HUMAN = "@human"
NOWHERE = "0" * 26  # the id of nothing


def new_name(stem: str) -> str:
    """A handle that no other test uses."""
    return f"@{stem}-{uuid.uuid4().hex[:12]}"


class Actor:
    """An agent with its token, or the operator on the Unix socket without one."""

    def __init__(self, server: ServerProcess, handle: str, token: str | None, workspace: str | None = None) -> None:
        self.server = server
        self.handle = handle
        self.token = token
        self.headers = {} if workspace is None else {"Wakeline-Workspace": workspace}

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self.server.call(method, path, body, token=self.token, headers={**self.headers, **headers})

    def get(self, path: str, **query: Any) -> Any:
        answer = self.call("GET", f"{path}?{urlencode(query)}" if query else path)
        assert answer.status == 200, answer.body
        return answer.json()

    def do(self, method: str, path: str, **body: Any) -> Any:
        answer = self.call(method, path, body)
        assert answer.status in (200, 201), answer.body
        return answer.json()

    def post(self, path: str, **body: Any) -> Any:
        return self.do("POST", path, **body)

    def send(self, *to: str | Actor, **fields: Any) -> Any:
        """Post a message; without recipients, `fields` must say where it goes."""
        given = {"to": [one.handle if isinstance(one, Actor) else one for one in to]} if to else {}
        answer = self.call("POST", "/v1/messages", {"body": "hello", **given, **fields})
        assert answer.status == 201, answer.body
        return answer.json()

    def refused(self, code: str, method: str, path: str, /, **body: Any) -> dict[str, Any]:
        """Call, and be refused with this code; answers the error."""
        return error_of(self.call(method, path, body or None), code)

    def send_refused(self, code: str, *to: str | Actor, **fields: Any) -> dict[str, Any]:
        given = {"to": [one.handle if isinstance(one, Actor) else one for one in to]} if to else {}
        return self.refused(code, "POST", "/v1/messages", **{"body": "hello", **given, **fields})

    # -- mail ---------------------------------------------------------------------------------------------------------

    def inbox(self, **query: Any) -> Any:
        return self.get("/v1/inbox", **query)

    def mail(self, **query: Any) -> list[Any]:
        """Page until there is no more."""
        page = self.inbox(**query)
        messages = list(page["messages"])
        while page["has_more"]:
            assert page["messages"], "a page that has more must get on"
            page = self.inbox(**{**query, "after": page["next"]})
            messages += page["messages"]
        return messages

    def unread(self) -> list[str]:
        return [message["body"] for message in self.mail()]

    def ack(self, *message_ids: str) -> Any:
        return self.post("/v1/inbox/ack", message_ids=list(message_ids))

    def read(self, thread_id: str, **query: Any) -> Any:
        return self.get(f"/v1/threads/{thread_id}/messages", **query)

    def message(self, message_id: str) -> Any:
        return self.get(f"/v1/messages/{message_id}")

    def thread(self, title: str = "a thread", *members: Actor, **fields: Any) -> str:
        handles = [member.handle for member in members]
        thread_id: str = self.post("/v1/threads", title=title, members=handles, **fields)["thread_id"]
        return thread_id


def operator(server: ServerProcess, workspace: str | None = None) -> Actor:
    return Actor(server, HUMAN, None, workspace)


def new_agent(server: ServerProcess, stem: str = "agent", *roles: str, workspace: str | None = None) -> Actor:
    handle = new_name(stem)
    added = operator(server, workspace).post("/v1/agents", handle=handle, roles=list(roles))
    return Actor(server, handle, added["token"])


def new_token(server: ServerProcess, handle: str, **fields: Any) -> Actor:
    """The same principal with another token: a human over TCP, a session, a role, a short life."""
    return Actor(server, handle, operator(server).post("/v1/tokens", handle=handle, **fields)["token"])


def error_of(answer: Answer, code: str | None = None) -> dict[str, Any]:
    """The error of an answer whose envelope is complete."""
    document = answer.json()
    assert set(document) == {"error", "request_id", "occurred_at"}, document
    error: dict[str, Any] = document["error"]
    assert set(error) == {"code", "message", "hint", "details", "retryable"}, document
    assert error["message"], document
    assert error["hint"], document
    assert document["request_id"] == answer.headers["x-request-id"]
    assert answer.headers["content-type"] == "application/json"
    assert 400 <= answer.status < 600
    if answer.status in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1
        assert error["retryable"]
    if code is not None:
        assert error["code"] == code, document
    return error


def path_of(operation: Operation) -> str:
    """The path of an operation on something that is not there."""
    return operation.path.format(
        message_id=NOWHERE,
        thread_id=NOWHERE,
        dead_letter_id=NOWHERE,
        subscription_id=NOWHERE,
        delivery_id=NOWHERE,
        activation_id=NOWHERE,
        handle="@nobody-at-all",
        jti=NOWHERE,
        session_id=NOWHERE,
    )


def refused(answer: Answer) -> dict[str, Any]:
    """The error of an answer that puts the blame on the caller, in a code that the catalogue knows."""
    assert 400 <= answer.status < 500, (answer.status, answer.body)
    error = error_of(answer)
    assert error["code"] in CATALOGUE
    return error


def address(server: ServerProcess) -> tuple[str, int]:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    return host, int(port)


def raw(server: ServerProcess, request: bytes, *, timeout: float = 20) -> tuple[int, dict[str, str], bytes]:
    """Send bytes, read until the server hangs up or has said `content-length` bytes; 0 means that it only hung up."""
    with socket.create_connection(address(server), timeout=timeout) as connection:
        connection.sendall(request)
        return read_answer(connection)


def read_answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65_536)
        if not chunk:
            return 0, {}, data
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        chunk = connection.recv(65_536)
        if not chunk:
            break
        body += chunk
    return int(first.split()[1]), headers, body


def raw_error(server: ServerProcess, request: bytes) -> dict[str, Any]:
    status, headers, body = raw(server, request)
    assert 400 <= status < 500, (status, body)
    return error_of(Answer(status, headers, body))


def head(method: str, path: str, token: str | None, **headers: str | int) -> bytes:
    """The head of a request, spelled by hand."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def to_json(document: Any) -> bytes:
    return json.dumps(document).encode()
