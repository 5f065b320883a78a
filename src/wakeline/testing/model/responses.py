"""OpenAI Responses, as Codex speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wakeline.testing.model.dialect import NOTHING_YET, event, text_of
from wakeline.testing.model.request import INSTRUCTIONS, Part, Request, Tool

USAGE = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
CALLS = ("function_call", "custom_tool_call", "local_shell_call", "reasoning")


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


class Responses:
    def parts(self, body: Mapping[str, Any]) -> Iterator[Part]:
        yield Part(INSTRUCTIONS, text_of(body.get("instructions", "")))
        for item in body.get("input", ()):
            kind = item.get("type", "message")
            role = item.get("role", "user") if kind == "message" else "assistant" if kind in CALLS else "tool"
            yield Part(role, text_of(item))

    def tools(self, body: Mapping[str, Any]) -> Iterator[Tool]:
        for tool in body.get("tools", ()):
            if tool.get("type") == "namespace":
                for inner in tool.get("tools", ()):
                    yield Tool(inner["name"], inner.get("parameters", {}), tool["name"])
            elif "name" in tool:
                yield Tool(tool["name"], tool.get("parameters", {}))

    def speak(self, request: Request, pieces: Iterable[str]) -> Iterator[bytes]:
        where = {"item_id": f"msg_{request.number}", "output_index": 0, "content_index": 0}
        yield _event("response.created", response=self._response(request, "in_progress", []))
        yield _event("response.output_item.added", output_index=0, item=self._item(request, "", "in_progress"))
        spoken = []
        for piece in pieces:
            spoken.append(piece)
            yield _event("response.output_text.delta", **where, delta=piece) if piece else NOTHING_YET
        item = self._item(request, "".join(spoken), "completed")
        yield _event("response.output_item.done", output_index=0, item=item)
        yield _event("response.completed", response=self._response(request, "completed", [item]))

    def call(self, request: Request, tool: Tool, arguments: Mapping[str, Any]) -> Iterator[bytes]:
        item = {
            "type": "function_call",
            "id": f"fc_{request.number}",
            "call_id": f"call_{request.number}",
            "name": tool.name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        if tool.group:
            item["namespace"] = tool.group
        yield _event("response.created", response=self._response(request, "in_progress", []))
        yield _event("response.output_item.added", output_index=0, item={**item, "arguments": ""})
        yield _event("response.output_item.done", output_index=0, item=item)
        yield _event("response.completed", response=self._response(request, "completed", [item]))

    def whole(self, request: Request, text: str) -> dict[str, Any]:
        return self._response(request, "completed", [self._item(request, text, "completed")])

    def failure(self, message: str) -> dict[str, Any]:
        return {"error": {"type": "server_error", "code": "server_error", "message": message}}

    def _item(self, request: Request, text: str, status: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
        return {
            "type": "message",
            "id": f"msg_{request.number}",
            "role": "assistant",
            "status": status,
            "content": content,
        }

    def _response(self, request: Request, status: str, output: list[Any]) -> dict[str, Any]:
        made = {
            "id": f"resp_{request.number}",
            "object": "response",
            "status": status,
            "model": request.model,
            "output": output,
        }
        return {**made, "usage": USAGE} if status == "completed" else made
