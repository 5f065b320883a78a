"""A tool is used in one of its agent's sessions, and what it posts says in which, where the harness tells."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import uuid4

import pytest
from mcp import Client

from tests.faces.http_calls import Actor, new_agent
from tests.faces.mcp_calls import ERAS, MODERN, connected
from tests.faces.test_mcp_stdio import piped
from wakeline.runtime.processes import host_name
from wakeline.testing.server import ServerProcess

Way = Callable[[Actor, str], AbstractAsyncContextManager[Client]]
WAYS = pytest.mark.parametrize("way", [piped, connected], ids=["stdio", "http"])


def sit(actor: Actor, **said: Any) -> tuple[str, str]:
    """A session of the agent's: what its harness calls it, and what we call it."""
    given = {"harness": "codex", "native_id": str(uuid4()), "host": "h", "presence": "idle", **said}
    return given["native_id"], actor.post("/v1/sessions/heartbeat", **given)["session_id"]


async def post(client: Client, to: Actor, tool: str = "post_message", **meta: Any) -> str | None:
    """Post, and see which session it is said to come from."""
    given = {"body": str(uuid4()), "to": [to.handle], **({"wait_seconds": 0} if tool == "ask" else {})}
    result = await client.call_tool(tool, given, meta=meta)  # type: ignore[arg-type]  # what harnesses really send
    assert not result.is_error, result
    assert result.structured_content is not None
    shown = await asyncio.to_thread(to.message, result.structured_content["message_id"])
    session: str | None = shown["session_id"]
    return session


@WAYS
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", ["wakeline/session", "threadId"])
@pytest.mark.guarantee("G-SEAT")
async def test_a_post_comes_from_the_session_that_the_harness_names(
    server: ServerProcess, way: Way, era: str, name: str
) -> None:
    alice, bob = new_agent(server, "alice"), new_agent(server, "bob")
    (one, first), (other, second) = sit(alice), sit(alice)
    async with way(alice, era) as client:
        assert await post(client, bob, **{name: one}) == first
        assert await post(client, bob, **{name: other}) == second
        assert await post(client, bob, "ask", **{name: one}) == first
        assert await post(client, bob) is None


@WAYS
async def test_a_session_that_registers_later_is_found(server: ServerProcess, way: Way) -> None:
    alice, bob = new_agent(server, "alice"), new_agent(server, "bob")
    early, first = sit(alice)
    async with way(alice, MODERN) as client:
        assert await post(client, bob, threadId=early) == first
        late, second = sit(alice)
        assert await post(client, bob, threadId=late) == second


@WAYS
async def test_a_session_that_is_not_the_agents_stops_no_post(server: ServerProcess, way: Way) -> None:
    alice, bob = new_agent(server, "alice"), new_agent(server, "bob")
    theirs, _ = sit(bob)
    names: list[Any] = [theirs, "nobody", 7, {"id": theirs}, "", "x" * 5_000]
    async with way(alice, MODERN) as client:
        for name in names:
            assert await post(client, bob, threadId=name) is None
    assert len(bob.unread()) == len(names)


@WAYS
async def test_a_token_that_is_bound_to_a_session_decides(server: ServerProcess, way: Way) -> None:
    alice, bob = new_agent(server, "alice"), new_agent(server, "bob")
    (_, bound), (other, _) = sit(alice), sit(alice)
    token = Actor(server, "@human", None).post("/v1/tokens", handle=alice.handle, session_id=bound)["token"]
    async with way(Actor(server, alice.handle, token), MODERN) as client:
        assert await post(client, bob, threadId=other) == bound
    assert len(bob.unread()) == 1


async def test_without_a_word_it_is_the_only_session_of_the_process_that_started_us(server: ServerProcess) -> None:
    alice, bob = new_agent(server, "alice"), new_agent(server, "bob")
    here: dict[str, Any] = {"host": host_name(), "pid": os.getpid()}
    sit(alice, host="another", pid=os.getpid())
    sit(alice, host=host_name(), pid=os.getppid())
    async with piped(alice, MODERN) as client:
        assert await post(client, bob) is None
        _, first = sit(alice, **here)
        assert await post(client, bob) == first
        other, second = sit(alice, **here)
        assert await post(client, bob) is None, "it may be either"
        sit(alice, **here, native_id=other, presence="active")
        assert await post(client, bob) == second
