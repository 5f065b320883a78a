"""OpenAI chat completions, as opencode and pi speak it to a model that is not one of the big services'."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wakeline.testing.model.dialect import NOTHING_YET, event, text_of
from wakeline.testing.model.request import INSTRUCTIONS, Part, Request, Tool

USAGE = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}


class Chat:
    def parts(self, body: Mapping[str, Any]) -> Iterator[Part]:
        begun = False
        for message in body.get("messages", ()):
            begun = begun or message["role"] not in ("system", "developer")
            yield Part(message["role"] if begun else INSTRUCTIONS, text_of(message.get("content")))

    def tools(self, body: Mapping[str, Any]) -> Iterator[Tool]:
        for tool in body.get("tools", ()):
            yield Tool(tool["function"]["name"], tool["function"].get("parameters", {}))

    def speak(self, request: Request, pieces: Iterable[str]) -> Iterator[bytes]:
        yield self._chunk(request, {"role": "assistant", "content": ""})
        for piece in pieces:
            yield self._chunk(request, {"content": piece}) if piece else NOTHING_YET
        yield from self._end(request, "stop")

    def call(self, request: Request, tool: Tool, arguments: Mapping[str, Any]) -> Iterator[bytes]:
        function = {"name": tool.name, "arguments": json.dumps(arguments)}
        called = {"index": 0, "id": f"call_{request.number}", "type": "function", "function": function}
        yield self._chunk(request, {"role": "assistant", "content": None, "tool_calls": [called]})
        yield from self._end(request, "tool_calls")

    def whole(self, request: Request, text: str) -> dict[str, Any]:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {**self._shell(request, "chat.completion"), "choices": [choice], "usage": USAGE}

    def failure(self, message: str) -> dict[str, Any]:
        return {"error": {"type": "server_error", "code": "server_error", "message": message}}

    def _shell(self, request: Request, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{request.number}", "object": kind, "created": 0, "model": request.model}

    def _chunk(self, request: Request, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return event({**self._shell(request, "chat.completion.chunk"), "choices": [choice]})

    def _end(self, request: Request, reason: str) -> Iterator[bytes]:
        yield self._chunk(request, {}, reason)
        yield event({**self._shell(request, "chat.completion.chunk"), "choices": [], "usage": USAGE})
        yield b"data: [DONE]\n\n"
