"""Eight agents that write to each other, read, acknowledge and change states until their server is gone."""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from tests.chaos.ledger import PATIENCE, Attempt, Ledger
from wakeline.testing.server import ServerProcess

GONE = (OSError, http.client.HTTPException)
# Nothing that a fault test does shall meet a guardrail.
SETTINGS: dict[str, Any] = {
    "rate_per_second": 1_000_000,
    "rate_burst": 1_000_000,
    "loop_turn_limit": 0,
    "loop_repeat_limit": 0,
    "loop_chain_limit": 0,
    "log_level": "warning",
}

_numbers = count(1)


class Line:
    """One keep-alive connection of one agent."""

    def __init__(self, server: ServerProcess, token: str) -> None:
        self._connection = server.connect()
        self._headers = {"Authorization": f"Bearer {token}"}

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        payload = None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, payload, self._headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self) -> None:
        self._connection.close()


class Team:
    """The agents, their tokens, a thread that all of them share, and one of its own for each."""

    def __init__(self, server: ServerProcess, size: int = 8) -> None:
        self.tokens = {f"@w{n}": server.add_agent(f"@w{n}") for n in range(size)}
        self.handles = list(self.tokens)
        self.shared = self._open(server, self.handles[0], self.handles)
        self.own = {handle: self._open(server, handle, self.handles[:2]) for handle in self.handles}

    def _open(self, server: ServerProcess, handle: str, members: list[str]) -> str:
        request = {"title": f"thread of {handle}", "members": members}
        answer = server.call("POST", "/v1/threads", request, token=self.tokens[handle])
        assert answer.status == 201, answer.body
        thread_id: str = answer.json()["thread_id"]
        return thread_id


class Writer:
    """One agent at work.  Everything it is told goes into the ledger, as does what it was not told."""

    def __init__(self, team: Team, handle: str, ledger: Ledger, dice: random.Random) -> None:
        self._team = team
        self._handle = handle
        self._ledger = ledger
        self._dice = dice
        self._refused = 0
        self._acts: list[tuple[Callable[[Line], None], int]] = [
            (self._post_direct, 6),
            (self._post_to_thread, 3),
            (self._ack_messages, 2),
            (self._ack_thread, 1),
            (self._change_status, 1),
        ]

    def work(self, server: ServerProcess, stop: threading.Event) -> None:
        line = Line(server, self._team.tokens[self._handle])
        acts, weights = zip(*self._acts, strict=True)
        try:
            while not stop.is_set():
                [act] = self._dice.choices(acts, weights)
                refused = self._refused
                act(line)
                if self._refused > refused:
                    stop.wait(0.05)  # as a careful client does, if not for as long
        except GONE:
            return
        finally:
            line.close()

    def _post_direct(self, line: Line) -> None:
        others = [handle for handle in self._team.handles if handle != self._handle]
        self._post(line, {"to": [self._dice.choice(others)]})

    def _post_to_thread(self, line: Line) -> None:
        self._post(line, {"thread_id": self._team.shared})

    def _post(self, line: Line, request: dict[str, Any]) -> None:
        mark = f"m{next(_numbers)}x{self._dice.getrandbits(32):08x}"
        request["body"] = f"{mark} {'ü' * self._dice.randrange(2_000)}"
        if self._dice.random() < 0.5:
            request["idempotency_key"] = f"key of {mark}"
        self._attempt(line, Attempt(self._handle, "/v1/messages", request, mark))

    def _attempt(self, line: Line, attempt: Attempt) -> None:
        self._ledger.try_(attempt)
        status, answer = line.call("POST", attempt.path, attempt.request)
        if status == 503:
            self._refused += 1
            self._ledger.refuse(answer["error"]["code"])
            return
        assert status in (200, 201), answer
        self._ledger.settle(attempt, answer)

    def _ack_messages(self, line: Line) -> None:
        status, inbox = line.call("GET", "/v1/inbox?limit=20")
        unread = [message["message_id"] for message in inbox["messages"]] if status == 200 else []
        if not unread:
            return
        chosen = self._dice.sample(unread, self._dice.randint(1, len(unread)))
        reading = self._ledger.reading[self._handle]
        reading.tried_messages.update(chosen)
        status, _ = line.call("POST", "/v1/inbox/ack", {"message_ids": chosen})
        if status == 200:
            reading.messages.update(chosen)

    def _ack_thread(self, line: Line) -> None:
        thread_id = self._team.shared
        status, thread = line.call("GET", f"/v1/threads/{thread_id}")
        if status != 200 or thread["last_seq"] == 0:
            return
        seq = self._dice.randint(1, thread["last_seq"])
        reading = self._ledger.reading[self._handle]
        reading.tried_threads[thread_id] = max(reading.tried_threads[thread_id], seq)
        status, answer = line.call("POST", f"/v1/threads/{thread_id}/ack", {"last_read_seq": seq})
        if status == 200:
            reading.threads[thread_id] = max(reading.threads[thread_id], answer["last_read_seq"])

    def _change_status(self, line: Line) -> None:
        thread_id, ledger = self._team.own[self._handle], self._ledger
        before = ledger.statuses.get(thread_id, "active")
        # After an unanswered change both are possible, and asking for what is there already leaves no entry.
        wanted = {"active": "blocked", "blocked": "active"}[before]
        if ledger.tried_statuses.get(thread_id, before) != before:
            status, thread = line.call("GET", f"/v1/threads/{thread_id}")
            if status == 200:
                ledger.statuses[thread_id] = ledger.tried_statuses[thread_id] = thread["status"]
            return
        mark = f"s{next(_numbers)}x{self._dice.getrandbits(32):08x}"
        ledger.tried_statuses[thread_id] = wanted
        attempt = Attempt(self._handle, f"/v1/threads/{thread_id}/status", {"status": wanted, "reason": mark}, mark)
        self._attempt(line, attempt)
        if attempt.answer is not None:
            ledger.statuses[thread_id] = wanted


@contextmanager
def load(server: ServerProcess, team: Team, ledger: Ledger, dice: random.Random) -> Iterator[threading.Event]:
    """All of them at once, until the block ends or their server does.  A writer that fails, fails the test."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def run(writer: Writer) -> None:
        try:
            writer.work(server, stop)
        except BaseException as error:  # noqa: BLE001 - it is raised again by the test's own thread
            failures.append(error)

    writers = [Writer(team, handle, ledger, random.Random(dice.random())) for handle in team.handles]
    threads = [threading.Thread(target=run, args=(writer,), daemon=True) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        yield stop
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads), "a writer never got an answer"
