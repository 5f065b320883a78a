"""Read a server from the first log row to the last, and compare it with what its writers were told."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.chaos.ledger import Attempt, Ledger
from tests.chaos.writers import Team
from wakeline.testing.server import ServerProcess

PAGE = 500


class Witness:
    """Remembers how far it has looked, so that many rounds cost no more than what they added."""

    def __init__(self, team: Team, ledger: Ledger) -> None:
        self._team = team
        self._ledger = ledger
        self._position = "0"
        self._last_log_id = 0
        self._last_seq: dict[str, int] = defaultdict(int)
        self.messages: dict[str, dict[str, Any]] = {}  # by id
        self._by_mark: dict[str, dict[str, Any]] = {}
        self._sent_to: dict[str, dict[str, dict[str, Any]]] = {handle: {} for handle in team.handles}

    def check(self, server: ServerProcess) -> None:
        """Everything answered is there once, in order, readable, with its read state."""
        fresh = self.follow(server)
        for attempt in self._ledger.attempts.values():
            if attempt.answer is not None:
                self.check_answered(attempt)
        self._check_threads(server, fresh)
        self._check_statuses(server)
        for handle in self._team.handles:
            self._check_inbox(server, handle)

    # -- the log ------------------------------------------------------------------------------------------------------

    def follow(self, server: ServerProcess) -> list[dict[str, Any]]:
        """The messages that the log has gained."""
        fresh: list[dict[str, Any]] = []
        more = True
        while more:
            page = get(server, f"/v1/log?after={self._position}&limit={PAGE}")
            for event in page["events"]:
                assert event["log_id"] == self._last_log_id + 1, "the log has a gap or a row out of order"
                self._last_log_id = event["log_id"]
                if event["kind"] == "message.posted":
                    fresh.append(self._take(event))
            self._position, more = page["position"], page["has_more"]
        return fresh

    def _take(self, event: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = event["message"]
        thread_id = message["thread_id"]
        assert event["stream_seq"] == message["seq"] == self._last_seq[thread_id] + 1, "a thread has a gap"
        assert message["log_id"] == event["log_id"]
        assert message["message_id"] not in self.messages
        self._last_seq[thread_id] = message["seq"]
        self.messages[message["message_id"]] = message
        mark = self._mark(message)
        if mark is not None:
            assert mark not in self._by_mark, f"{mark} is there twice"
            self._by_mark[mark] = message
        for handle in message["to"]:
            self._sent_to[handle][message["message_id"]] = message
        return message

    def _mark(self, message: dict[str, Any]) -> str | None:
        words = message["body"].split()
        return next((word for word in (words[0], words[-1]) if word in self._ledger.attempts), None)

    def check_answered(self, attempt: Attempt) -> None:
        found = self._by_mark.get(attempt.mark)
        assert found is not None, f"{attempt.mark} was answered and is lost"
        assert found["sender"] == attempt.sender
        if attempt.path == "/v1/messages":
            answer = attempt.answer or {}
            for name in ("message_id", "thread_id", "seq", "log_id", "created_at"):
                assert found[name] == answer[name], f"{attempt.mark} is not where its answer said"
            assert found["body"] == attempt.text

    def has(self, attempt: Attempt) -> bool:
        return attempt.mark in self._by_mark

    # -- threads and inboxes ------------------------------------------------------------------------------------------

    def _check_threads(self, server: ServerProcess, fresh: list[dict[str, Any]]) -> None:
        """Each thread, read as its readers do, says the same as the log."""
        threads: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for message in fresh:
            threads[message["thread_id"]].append(message)
        for thread_id, expected in threads.items():
            since, found, more = expected[0]["seq"] - 1, [], True
            while more:
                page = get(server, f"/v1/threads/{thread_id}/messages?since_seq={since}&limit={PAGE}")
                found += page["messages"]
                since, more = page["next_seq"], page["has_more"]
            assert [_core(message) for message in found] == [_core(message) for message in expected]

    def _check_statuses(self, server: ServerProcess) -> None:
        for thread_id, answered in self._ledger.statuses.items():
            status = get(server, f"/v1/threads/{thread_id}")["status"]
            assert status in (answered, self._ledger.tried_statuses[thread_id])

    def _check_inbox(self, server: ServerProcess, handle: str) -> None:
        unread = self._unread(server, handle)
        reading = self._ledger.reading[handle]
        for message_id, message in self._sent_to[handle].items():
            if reading.has_read(message):
                assert message_id not in unread, f"{handle} had acknowledged {message_id}"
            elif not reading.may_have_read(message):
                assert message_id in unread, f"{handle} never acknowledged {message_id}"

    def _unread(self, server: ServerProcess, handle: str) -> set[str]:
        """All of it; the count that is shown is exactly what reading returns."""
        token, found, after = self._team.tokens[handle], [], ""
        while True:
            page = get(server, f"/v1/inbox?limit={PAGE}{after}", token)
            found += [message["message_id"] for message in page["messages"]]
            if not page["has_more"]:
                break
            after = f"&after={page['next']}"
        assert len(set(found)) == len(found) == page["unread"]
        return set(found)


def _core(message: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(message[name] for name in ("message_id", "seq", "log_id", "sender", "body", "created_at"))


def get(server: ServerProcess, path: str, token: str | None = None) -> Any:
    answer = server.call("GET", path, token=token)
    assert answer.status == 200, answer.body
    return answer.json()


def retry(server: ServerProcess, team: Team, attempt: Attempt) -> dict[str, Any]:
    """The same request once more, as a careful client does."""
    answer = server.call("POST", attempt.path, attempt.request, token=team.tokens[attempt.sender])
    assert answer.status == 201, answer.body
    attempt.answer = answer.json()
    return attempt.answer
