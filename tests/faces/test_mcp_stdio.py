from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.faces.http_calls import Actor, new_agent
from tests.faces.mcp_calls import ERAS, LEGACY, MODERN, connected, refused, use
from wakeline.testing.server import ServerProcess


@asynccontextmanager
async def piped(
    actor: Actor, era: str, environ: Mapping[str, str] | None = None, **options: Any
) -> AsyncIterator[Client]:
    """`wakeline mcp` as a child, with the agent's token in its environment."""
    given = {**actor.server.environ, "WAKELINE_TOKEN": actor.token or "", **(environ or {})}
    command = StdioServerParameters(command=sys.executable, args=["-m", "wakeline", "mcp"], env=given)
    async with Client(stdio_client(command), mode=era, **options) as client:
        yield client


@pytest.mark.parametrize("era", ERAS)
async def test_the_tools_are_those_of_http(server: ServerProcess, era: str) -> None:
    alice = new_agent(server, "alice")
    async with piped(alice, era) as pipe, connected(alice, era) as http:
        assert (await pipe.list_tools()).tools == (await http.list_tools()).tools
        assert (await pipe.list_resources()).resources == (await http.list_resources()).resources


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", ["socket", "tcp"])
async def test_messages_go_both_ways(server: ServerProcess, era: str, way: str) -> None:
    alice, bob = new_agent(server, "alice"), new_agent(server, "bob")
    environ = {"WAKELINE_URL": server.url, "WAKELINE_DATA": "/nowhere"} if way == "tcp" else {}
    async with piped(alice, era, environ) as client:
        await use(client, "post_message", body="hello", to=[bob.handle])
        assert await asyncio.to_thread(bob.unread) == ["hello"]
        waiting = asyncio.create_task(use(client, "wait"))
        await asyncio.to_thread(bob.send, alice, body="hello yourself")
        [mail] = (await waiting)["mail"]
        assert mail["sender"] == bob.handle
        assert [one["body"] for one in (await use(client, "read_messages"))["messages"]] == ["hello yourself"]
        await refused(client, "INVALID_ARGUMENT", "post_message", body="x", to=[bob.handle], colour="red")
        await refused(client, "RECIPIENT_UNKNOWN", "post_message", body="x", to=["@nobody-at-all"])


async def test_a_server_that_is_away_is_told_by_the_tools(server: ServerProcess) -> None:
    alice = new_agent(server, "alice")
    server.stop()
    async with piped(alice, MODERN) as client:
        error = await refused(client, "SERVER_UNREACHABLE", "post_message", body="x", to=["@human"])
        assert error["retryable"]
        await asyncio.to_thread(server.start)
        await use(client, "post_message", body="x", to=["@human"])


async def test_a_bad_token_is_told_by_the_tools(server: ServerProcess) -> None:
    async with piped(Actor(server, "@nobody", "nonsense"), LEGACY) as client:
        await refused(client, "TOKEN_INVALID", "read_messages")


def test_an_agents_harness_cannot_be_the_operator(server: ServerProcess) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wakeline", "mcp"],
        env={**server.environ, "CLAUDECODE": "1"},
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "OPERATOR_IN_HARNESS" in done.stderr


def test_it_ends_with_its_input_and_writes_nothing_but_the_protocol(server: ServerProcess, tmp_path: Path) -> None:
    alice = new_agent(server, "alice")
    asked = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    done = subprocess.run(
        [sys.executable, "-m", "wakeline", "mcp"],
        env={**server.environ, "WAKELINE_TOKEN": alice.token or ""},
        input=f"{json.dumps(asked)}\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    [answer] = map(json.loads, done.stdout.splitlines())
    assert answer["result"]["protocolVersion"] == "2025-06-18"
    assert answer["result"]["capabilities"]["experimental"]["neo-wake-substrate"]["version"] == "1.0"
