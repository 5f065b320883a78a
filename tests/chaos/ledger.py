"""What the writers of a chaos test were told.  Whatever is answered here must be there after any crash."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

PATIENCE = 60


@dataclass(slots=True)
class Attempt:
    """One post or status change.  `mark` is a word that no other text contains."""

    sender: str
    path: str
    request: dict[str, Any]
    mark: str
    answer: dict[str, Any] | None = None

    @property
    def key(self) -> str | None:
        return self.request.get("idempotency_key")

    @property
    def text(self) -> str:
        return str(self.request.get("body", ""))


@dataclass(slots=True)
class Reading:
    """What one reader acknowledged, and what it tried to without hearing back."""

    messages: set[str] = field(default_factory=set)
    tried_messages: set[str] = field(default_factory=set)
    threads: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    tried_threads: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def has_read(self, message: dict[str, Any]) -> bool:
        return message["message_id"] in self.messages or message["seq"] <= self.threads[message["thread_id"]]

    def may_have_read(self, message: dict[str, Any]) -> bool:
        tried = message["message_id"] in self.tried_messages
        return tried or message["seq"] <= self.tried_threads[message["thread_id"]]


class Ledger:
    """Written by many threads, each for its own sender; read when they have ended."""

    def __init__(self, handles: list[str]) -> None:
        self.attempts: dict[str, Attempt] = {}
        self.reading = {handle: Reading() for handle in handles}
        self.statuses: dict[str, str] = {}  # thread -> the status last answered
        self.tried_statuses: dict[str, str] = {}  # thread -> the status last asked for
        self.answered = 0
        self.refusals: Counter[str] = Counter()  # by error code
        self._more = threading.Condition()

    def try_(self, attempt: Attempt) -> None:
        self.attempts[attempt.mark] = attempt

    def settle(self, attempt: Attempt, answer: dict[str, Any]) -> None:
        attempt.answer = answer
        with self._more:
            self.answered += 1
            self._more.notify_all()

    def refuse(self, code: str) -> None:
        with self._more:
            self.refusals[code] += 1
            self._more.notify_all()

    def wait_for(self, more: int) -> None:
        """Until so many more attempts were answered than now."""
        with self._more:
            goal = self.answered + more
            assert self._more.wait_for(lambda: self.answered >= goal, PATIENCE), "the writers came to a halt"

    def wait_for_refusals(self, more: int) -> None:
        with self._more:
            goal = self.refusals.total() + more
            assert self._more.wait_for(lambda: self.refusals.total() >= goal, PATIENCE), "nothing was refused"

    def unanswered(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts.values() if attempt.answer is None]
