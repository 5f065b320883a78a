"""Anthropic Messages, as Claude Code speaks it: it takes answers with the same id for pieces of one answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wakeline.testing.model.dialect import NOTHING_YET, event, text_of
from wakeline.testing.model.request import INSTRUCTIONS, Part, Request, Tool

USAGE = {"input_tokens": 10, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


class Messages:
    def parts(self, body: Mapping[str, Any]) -> Iterator[Part]:
        yield Part(INSTRUCTIONS, text_of(body.get("system", "")))
        for message in body.get("messages", ()):
            yield Part(message["role"], text_of(message["content"]))

    def tools(self, body: Mapping[str, Any]) -> Iterator[Tool]:
        for tool in body.get("tools", ()):
            if "input_schema" in tool:
                yield Tool(tool["name"], tool["input_schema"])

    def speak(self, request: Request, pieces: Iterable[str]) -> Iterator[bytes]:
        yield _event("message_start", message=self._message(request, []))
        yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for piece in pieces:
            delta = {"type": "text_delta", "text": piece}
            yield _event("content_block_delta", index=0, delta=delta) if piece else NOTHING_YET
        yield from self._end("end_turn")

    def call(self, request: Request, tool: Tool, arguments: Mapping[str, Any]) -> Iterator[bytes]:
        block = {"type": "tool_use", "id": f"toolu_{request.number}", "name": tool.name, "input": {}}
        yield _event("message_start", message=self._message(request, []))
        yield _event("content_block_start", index=0, content_block=block)
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        yield _event("content_block_delta", index=0, delta=delta)
        yield from self._end("tool_use")

    def whole(self, request: Request, text: str) -> dict[str, Any]:
        return {**self._message(request, [{"type": "text", "text": text}]), "stop_reason": "end_turn"}

    def failure(self, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "api_error", "message": message}}

    def _message(self, request: Request, content: list[Any]) -> dict[str, Any]:
        return {
            "id": f"msg_{request.number}",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": USAGE,
        }

    def _end(self, reason: str) -> Iterator[bytes]:
        yield _event("content_block_stop", index=0)
        yield _event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=USAGE)
        yield _event("message_stop")
