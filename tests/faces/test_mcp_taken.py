"""A wake over MCP is delivered exactly when its client was told: seen from the SDK's own client, on every way to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.faces.http_calls import Actor, new_agent
from tests.faces.mcp_calls import LEGACY, MODERN, connected
from tests.faces.mcp_streams import INBOX, best_route, get_stream, open_session
from tests.faces.test_mcp_stdio import piped
from wakeline.testing.server import ServerProcess

Connect = Callable[..., AbstractAsyncContextManager[Client]]
WAYS = pytest.mark.parametrize("connect", [connected, piped], ids=["http", "stdio"])
SEED = ["wake/sent_to_me", "wake/task_state_changed", "wake/permission_granted"]  # as the seed writes it


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data: Path = tmp_path_factory.mktemp("taken") / "data"
    with ServerProcess(data, coalesce_seconds=0, supervisor_seconds=1) as process:
        yield process


@pytest.fixture
def alice(place: ServerProcess) -> Actor:
    return new_agent(place, "alice")


@pytest.fixture
def bob(place: ServerProcess) -> Actor:
    actor = new_agent(place, "bob")
    subscribe(actor, 0)
    return actor


def subscribe(actor: Actor, window: int) -> None:
    route = {"harness_target": "mcp-notifications", "harness_target_metadata": {"coalesce_window": window}}
    actor.post("/v1/wake-subscriptions", trigger="SENT_TO_ME", **route)


async def until(check: Callable[[], Any]) -> None:
    await asyncio.to_thread(_until, check)


def _until(check: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def evidence(actor: Actor) -> tuple[list[str], list[str]]:
    """Why its wakes are held, and what came of its deliveries."""
    rows = actor.get("/v1/wake-subscriptions")["subscriptions"]
    [row] = [one for one in rows if one["trigger"] == "SENT_TO_ME"]
    held = actor.get(f"/v1/wake-subscriptions/{row['subscription_id']}")["held"]
    deliveries = actor.get("/v1/deliveries")["deliveries"]
    return [one["reason"] for one in held], [f"{one['step']}/{one['outcome']}" for one in deliveries]


async def is_held(actor: Actor) -> None:
    await until(lambda: evidence(actor) == (["no_connection"], []))


async def is_delivered(actor: Actor) -> None:
    await until(lambda: evidence(actor) == ([], ["triggered/delivered"]))


class Ear:
    """What a client of the handshake era is told."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[Any] = asyncio.Queue()

    async def __call__(self, params: types.LoggingMessageNotificationParams) -> None:
        self.told.put_nowait(params.data)

    async def next(self) -> Any:
        async with asyncio.timeout(20):
            return await self.told.get()


async def set_level(client: Client, level: types.LoggingLevel) -> None:
    request = types.SetLevelRequest(params=types.SetLevelRequestParams(level=level))
    await client.session.send_request(request, types.EmptyResult)


@asynccontextmanager
async def without_stream(actor: Actor, **options: Any) -> AsyncIterator[Client]:
    """A client that only ever posts: its GET is answered as by a proxy that has none."""

    class PostOnly(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(405) if request.method == "GET" else await super().handle_async_request(request)

    headers = {"Authorization": f"Bearer {actor.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60, transport=PostOnly()) as http:
        transport = streamable_http_client(f"{actor.server.url}/mcp", http_client=http)
        async with Client(transport, mode=LEGACY, **options) as client:
            yield client


def declare(monkeypatch: pytest.MonkeyPatch, *events: str) -> None:
    """The SDK's client has no room for experimental capabilities."""
    made = types.ClientCapabilities(experimental={"neo-wake-substrate": {"version": "1.0", "supportedEvents": events}})
    monkeypatch.setattr(ClientSession, "_build_capabilities", lambda *_: made)


async def speak(alice: Actor, bob: Actor, times: int = 1) -> None:
    for n in range(times):
        await asyncio.to_thread(alice.send, bob, body=f"text {n}")


# -- the handshake era ------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-MCP-TAKEN")
@WAYS
async def test_who_can_be_told_is_told_and_it_is_recorded(connect: Connect, alice: Actor, bob: Actor) -> None:
    ear = Ear()
    async with connect(bob, LEGACY, logging_callback=ear):
        await speak(alice, bob)
        assert (await ear.next())["eventType"] == "wake/sent_to_me"
        await is_delivered(bob)


@pytest.mark.guarantee("G-MCP-TAKEN")
async def test_a_session_without_a_stream_is_not_connected(alice: Actor, bob: Actor) -> None:
    async with without_stream(bob) as silent:
        await silent.list_tools()
        await speak(alice, bob)
        await is_held(bob)
        ear = Ear()
        async with connected(bob, LEGACY, logging_callback=ear):
            assert (await ear.next())["eventType"] == "wake/sent_to_me"
            await is_delivered(bob)


@pytest.mark.guarantee("G-MCP-TAKEN")
async def test_what_comes_while_the_stream_is_away_goes_out_when_it_opens_again(alice: Actor, bob: Actor) -> None:
    session = await asyncio.to_thread(open_session, bob)
    with get_stream(bob, session):
        await until(lambda: best_route(bob) == "mcp-notifications")
    await until(lambda: best_route(bob) == "none")
    await speak(alice, bob)
    await is_held(bob)
    with get_stream(bob, session) as stream:
        assert (await asyncio.to_thread(stream.next))["params"]["data"]["eventType"] == "wake/sent_to_me"
        await is_delivered(bob)


@pytest.mark.guarantee("G-MCP-TAKEN")
@WAYS
async def test_a_level_above_info_holds_wakes_until_it_is_lowered(connect: Connect, alice: Actor, bob: Actor) -> None:
    ear = Ear()
    async with connect(bob, LEGACY, logging_callback=ear) as client:
        await speak(alice, bob)
        first = await ear.next()
        await set_level(client, "warning")
        await until(lambda: evidence(bob) == ([], ["triggered/delivered"]))
        await speak(alice, bob)
        await until(lambda: evidence(bob) == (["no_connection"], ["triggered/delivered"]))
        await set_level(client, "debug")
        assert (await ear.next())["logId"] > first["logId"]
        await until(lambda: evidence(bob) == ([], ["triggered/delivered"] * 2))


@pytest.mark.guarantee("G-MCP-TAKEN")
@WAYS
async def test_a_client_as_in_the_seed_gets_digests(
    connect: Connect, alice: Actor, place: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    carol = new_agent(place, "carol")
    subscribe(carol, 2)
    declare(monkeypatch, *SEED)
    ear = Ear()
    async with connect(carol, LEGACY, logging_callback=ear):
        await speak(alice, carol)
        assert (await ear.next())["eventType"] == "wake/sent_to_me"
        await speak(alice, carol, times=2)
        digest = await ear.next()
        assert (digest["eventType"], digest["payload"]["totalEvents"]) == ("wake/digest", 2)


@pytest.mark.guarantee("G-MCP-TAKEN")
@WAYS
async def test_an_event_that_a_client_does_not_understand_waits_for_one_that_does(
    connect: Connect, alice: Actor, bob: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        declare(patch, "wake/permission_granted")
        async with connect(bob, LEGACY) as client:
            await client.list_tools()
            await speak(alice, bob)
            await is_held(bob)
    ear = Ear()
    async with connect(bob, LEGACY, logging_callback=ear):
        assert (await ear.next())["eventType"] == "wake/sent_to_me"
        await is_delivered(bob)


# -- the stateless era ------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-MCP-TAKEN")
@WAYS
async def test_who_listens_only_for_changed_lists_is_not_connected(connect: Connect, alice: Actor, bob: Actor) -> None:
    """As Claude Code does."""
    async with connect(bob, MODERN) as client, client.listen(tools_list_changed=True):
        await speak(alice, bob)
        await is_held(bob)
        async with client.listen(resource_subscriptions=[INBOX]) as events:
            await _first(events)
            await is_delivered(bob)


async def _first(events: AsyncIterator[Any]) -> None:
    async with asyncio.timeout(20):
        assert str((await anext(aiter(events))).uri) == INBOX


async def test_who_cannot_be_told_is_not_given_the_route(place: ServerProcess) -> None:
    dave = new_agent(place, "dave")
    async with connected(dave, MODERN) as client, client.listen(tools_list_changed=True):
        assert await asyncio.to_thread(best_route, dave) == "none"
        async with client.listen(resource_subscriptions=[INBOX]):
            assert await asyncio.to_thread(best_route, dave) == "mcp-notifications"
