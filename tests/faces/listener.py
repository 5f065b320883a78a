"""Somebody who listens to the event stream of a real server."""

from __future__ import annotations

import http.client
import json
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.faces.http_calls import Actor
from wakeline.testing.server import Answer


class Event(NamedTuple):
    id: str
    kind: str
    data: dict[str, Any]

    @property
    def log_id(self) -> int:
        return int(self.id.rpartition("-")[2])

    @property
    def body(self) -> str | None:
        """The body of the message that it is about, if it is about one."""
        message = self.data.get("message")
        return None if message is None else str(message["body"])


class Listener:
    """An open stream.  `refusal` is the answer when there is none."""

    def __init__(self, actor: Actor, after: str | None = None, last_event_id: str | None = None) -> None:
        self.comments: list[str] = []
        self._connection = actor.server.connect() if actor.token is not None else actor.server.connect_unix()
        headers = dict(actor.headers)
        if actor.token is not None:
            headers["Authorization"] = f"Bearer {actor.token}"
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        path = "/v1/events" if after is None else f"/v1/events?after={after}"
        self._connection.request("GET", path, headers=headers)
        self._answer: http.client.HTTPResponse = self._connection.getresponse()
        self.status = self._answer.status
        self.headers = {name.lower(): value for name, value in self._answer.getheaders()}
        self.refusal = None if self.status == 200 else Answer(self.status, self.headers, self._answer.read())
        if self.refusal is None:
            self._read_block()  # the greeting: from here on nothing is missed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._answer.close()
        self._connection.close()

    def _read_block(self) -> list[str] | None:
        """The lines up to the next empty one; None at the end of the stream."""
        lines: list[str] = []
        while line := self._answer.readline():
            if line == b"\n":
                self.comments += [one for one in lines if one.startswith(":")]
                return lines
            lines.append(line.decode().rstrip("\n"))
        return None

    def next(self) -> Event | None:
        """The next event, or None when the server ended the stream."""
        while (lines := self._read_block()) is not None:
            fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
            if fields:
                return Event(fields["id"], fields["event"], json.loads(fields["data"]))
        return None

    def take(self, count: int) -> list[Event]:
        events = []
        for _ in range(count):
            event = self.next()
            assert event is not None, "the stream ended"
            events.append(event)
        return events

    def take_until(self, body: str) -> list[Event]:
        """Up to the message with this body."""
        events = self.take(1)
        while events[-1].body != body:
            events += self.take(1)
        return events

    def wait_for_end(self) -> None:
        while self.next() is not None:
            pass

    def wait_for_comment(self) -> str:
        """The next sign of life."""
        before = len(self.comments)
        while len(self.comments) == before:
            assert self._read_block() is not None, "the stream ended"
        return self.comments[-1]
