"""One request of a harness, as far as tests ask about it, whichever dialect it came in."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# The first of these that a request carries names the harness's own session.
SESSION_HEADERS = (
    "x-claude-code-session-id",
    "thread-id",
    "x-session-id",
    "x-session-affinity",
    "session-id",
    "session_id",
)


INSTRUCTIONS = "instructions"


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a conversation: who said it, in the dialect's word for the role, and its text.

    What the harness tells every model before the conversation begins has the role `INSTRUCTIONS`.
    """

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the request offers.  `group` is set where a dialect bundles tools under a name of their own."""

    name: str
    schema: Mapping[str, Any]
    group: str | None = None


@dataclass(slots=True)
class Request:
    number: int  # from 1, in order of arrival
    at: float  # seconds of the monotonic clock
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Mapping[str, Any]
    parts: tuple[Part, ...]
    tools: tuple[Tool, ...]
    answered: threading.Event = field(default_factory=threading.Event)
    cut: bool = False  # the harness hung up before the answer was over

    @property
    def session(self) -> str | None:
        """The harness's id of the session that asks."""
        return next((self.headers[name] for name in SESSION_HEADERS if name in self.headers), None)

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def is_turn(self) -> bool:
        """Part of a session's turn.  Harnesses also ask for titles and summaries, and offer no tools for those."""
        return bool(self.tools)

    @property
    def text(self) -> str:
        """The whole conversation."""
        return _joined(self.parts)

    @property
    def news(self) -> str:
        """What came after the model's last words: a prompt, the result of a tool, something injected."""
        last = max((at for at, part in enumerate(self.parts) if part.role == "assistant"), default=-1)
        return _joined(self.parts[last + 1 :])


def _joined(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts if part.role != INSTRUCTIONS)
