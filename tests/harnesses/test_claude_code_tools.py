from __future__ import annotations

import json
import sys

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.faces.http_calls import new_agent
from tests.faces.mcp_calls import ERAS, connected, use
from wakeline.harnesses.claude_code.companion import TOOL
from wakeline.testing.server import ServerProcess


@pytest.mark.parametrize("era", ERAS)
async def test_the_companion_has_the_tools_of_mcp_and_one_that_only_hooks_know(server: ServerProcess, era: str) -> None:
    alice = new_agent(server, "alice")
    environ = {**server.environ, "WAKELINE_TOKEN": alice.token or ""}
    command = StdioServerParameters(command=sys.executable, args=["-m", "wakeline", "seat", "claude-code"], env=environ)
    async with Client(stdio_client(command), mode=era) as seat, connected(alice, era) as http:
        assert (await seat.list_tools()).tools == (await http.list_tools()).tools
        await use(seat, "post_message", body="hello", to=["@human"])
        answer = await seat.call_tool(TOOL, {"event": "Stop", "session_id": "one"})
        assert [json.loads(content.text) for content in answer.content if content.type == "text"] == [{}]
        assert answer.structured_content is None, "Claude Code would put it before the model"
