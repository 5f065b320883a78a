"""What the stand-in may answer: words, at once or slowly, a call of a tool, or an error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

TICK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Say:
    """Words.  With a `gate`, the first line is streamed at once, and the rest and the end when the test opens it."""

    text: str = "Done."
    gate: threading.Event | None = None

    def pieces(self, closing: threading.Event) -> Iterator[str]:
        """The words in the pieces in which they are streamed; "" says that there is nothing yet."""
        if self.gate is None:
            yield self.text
            return
        first, newline, rest = self.text.partition("\n")
        yield first + newline
        while not closing.is_set() and not self.gate.wait(TICK_SECONDS):
            yield ""
        if rest:
            yield rest


@dataclass(frozen=True, slots=True)
class Use:
    """A call of the offered tool whose name is, or ends in, `tool`: harnesses put their own prefix before MCP tools.

    `server` is a word of that prefix, where several servers have a tool of this name.
    """

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    server: str = ""


@dataclass(frozen=True, slots=True)
class Shell:
    """A call of the harness's own shell tool, whatever that is called and however it takes its command.

    `asks`: where it is the model that says so, the human is to be asked first.
    """

    command: str
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """An answer that is an error of the model's service."""

    status: int = 500
    message: str = "the model is not well"


Reply = Say | Use | Shell | Fail
