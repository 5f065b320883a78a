"""A Wakeline with one more MCP tool, which answers with what it was given: what MCP itself costs here."""

from __future__ import annotations

import os
import sys
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from wakeline.runtime import bootstrap, settings


def prepare(server: Server[None]) -> None:
    ours = server.get_request_handler("tools/call")

    async def call(ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> Any:
        if params.name != "echo":
            return await ours.handler(ctx, params) if ours is not None else None
        text = msgspec.json.encode(params.arguments).decode()
        content = [{"type": "text", "text": text}]
        return {"content": content, "structuredContent": params.arguments, "resultType": "complete"}

    server.add_request_handler("tools/call", types.CallToolRequestParams, call)


if __name__ == "__main__":
    sys.exit(bootstrap.serve(settings.load({}, os.environ)[0], bootstrap.Additions(prepare=prepare)))
