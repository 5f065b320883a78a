"""Somebody who speaks MCP to a real server: the SDK's own client in either era, and bare requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.faces.http_calls import Actor
from wakeline.testing.server import Answer, ServerProcess

LEGACY, MODERN = "legacy", "2026-07-28"
ERAS = (LEGACY, MODERN)
HANDSHAKE = "2025-11-25"
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@asynccontextmanager
async def connected(actor: Actor, era: str, **options: Any) -> AsyncIterator[Client]:
    headers = {} if actor.token is None else {"Authorization": f"Bearer {actor.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{actor.server.url}/mcp", http_client=http)
        async with Client(transport, mode=era, **options) as client:
            yield client


class Speaker:
    """An agent that connects anew for whatever it does.  (A client must be closed by the task that opened it, and a
    fixture's end is another task.)
    """

    def __init__(self, actor: Actor, era: str) -> None:
        self.actor = actor
        self.era = era

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        async with connected(self.actor, self.era) as client:
            return await client.call_tool(name, arguments)


def text_of(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def use(client: Client | Speaker, tool: str, **arguments: Any) -> Any:
    """Call a tool that must succeed; answers its structured content."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


async def refused(client: Client | Speaker, code: str, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    assert result.structured_content is not None
    error: dict[str, Any] = result.structured_content["error"]
    assert set(error) == {"code", "message", "hint", "details", "retryable"}
    assert error["code"] == code, error
    assert text_of(result) == f"{code}: {error['message']} {error['hint']}"
    return error


# -- bare requests ----------------------------------------------------------------------------------------------------


def rpc(method: str, params: dict[str, Any] | None = None, **fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}, **fields}).encode()


def post(server: ServerProcess, token: str | None, body: bytes, **headers: str) -> Answer:
    """One POST to /mcp over TCP, with or without a token."""
    given = {**ACCEPT, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    connection = server.connect()
    try:
        connection.request("POST", "/mcp", body, given)
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def initialize(actor: Actor, version: str = HANDSHAKE, **capabilities: Any) -> str:
    """Open a session by hand; answers its id."""
    params = {
        "protocolVersion": version,
        "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "1"},
    }
    answer = post(actor.server, actor.token, rpc("initialize", params))
    assert answer.status == 200, answer.body
    session: str = answer.headers["mcp-session-id"]
    done = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    assert post(actor.server, actor.token, done, Mcp_Session_Id=session).status == 202
    return session


def modern(method: str, params: dict[str, Any] | None = None, name: str | None = None) -> tuple[bytes, dict[str, str]]:
    """A request of the stateless era, and its headers."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if name is not None:
        headers["Mcp-Name"] = name
    return rpc(method, {**(params or {}), "_meta": meta}), headers
