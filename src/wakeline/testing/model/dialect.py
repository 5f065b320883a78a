"""What a dialect of a model's interface can do: read a request, and write an answer as its harness wants to see it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from wakeline.testing.model.request import Part, Request, Tool

NOTHING_YET = b": nothing yet\n\n"  # a comment of SSE: keeps the stream open, and shows whether anybody still listens


class Dialect(Protocol):
    def parts(self, body: Mapping[str, Any]) -> Iterator[Part]: ...

    def tools(self, body: Mapping[str, Any]) -> Iterator[Tool]: ...

    def speak(self, request: Request, pieces: Iterable[str]) -> Iterator[bytes]:
        """Words, as events of a stream."""
        ...

    def call(self, request: Request, tool: Tool, arguments: Mapping[str, Any]) -> Iterator[bytes]:
        """A call of a tool, as events of a stream."""
        ...

    def whole(self, request: Request, text: str) -> dict[str, Any]:
        """Words, as one answer: for who does not stream."""
        ...

    def failure(self, message: str) -> dict[str, Any]: ...


def event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def text_of(content: Any) -> str:
    """The text in a content: a string, or blocks that hold text or, for the result of a tool, again a content."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, content)))
    if isinstance(content, dict):
        return "\n".join(filter(None, (text_of(content.get(key)) for key in ("text", "content", "output"))))
    return ""
