"""The smallest load: one agent writes to another, and remembers what it was told."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tests.chaos.witness import get
from wakeline.testing.server import Answer, ServerProcess

BODY = "x" * 20_000
_numbers = count(1)


class Mail:
    """One sender, one receiver, and what the sender was told."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.sender = server.add_agent("@sender")
        self.receiver = server.add_agent("@receiver")
        self.sent: list[str] = []

    def post(self, body: str | None = None, **fields: Any) -> Answer:
        """Without a body, one that only its key repeats: who says the same again and again meets a guard."""
        name = fields.get("idempotency_key") or next(_numbers)
        request = {"to": ["@receiver"], "body": body or f"{name} {BODY}", **fields}
        answer = self.server.call("POST", "/v1/messages", request, token=self.sender)
        if answer.status == 201:
            self.sent.append(answer.json()["message_id"])
        return answer

    def post_until_refused(self) -> Answer:
        for _ in range(10_000):
            answer = self.post()
            if answer.status != 201:
                return answer
        pytest.fail("the disk never became full")

    def received(self) -> list[str]:
        return [message["message_id"] for message in self._unread()]

    def bodies(self) -> list[str]:
        return [message["body"] for message in self._unread()]

    def _unread(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = get(self.server, f"/v1/inbox?limit=100{after}", self.receiver)
            found += page["messages"]
            if not page["has_more"]:
                return found
            after = f"&after={page['next']}"
