from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from tests.faces.http_calls import Actor, error_of, new_agent, new_token, operator
from tests.faces.listener import Listener
from tests.faces.mcp_calls import LEGACY, MODERN, connected, modern, post, rpc
from tests.faces.mcp_server import COMMAND
from tests.faces.mcp_streams import (
    INBOX,
    Listening,
    Sleeper,
    digest,
    get_stream,
    listen,
    open_session,
    push,
    resource,
    until_taken,
    wake,
)
from tests.faces.test_mcp_stdio import piped
from wakeline.testing.server import ServerProcess

UPDATED = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": INBOX}}
BIG = "x" * 100_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("push") / "data"
    with ServerProcess(data, command=COMMAND, keepalive_seconds=0.2, stream_buffer=64) as process:
        yield process


@pytest.fixture
def alice(place: ServerProcess) -> Actor:
    return new_agent(place, "alice")


@pytest.fixture
def bob(place: ServerProcess) -> Actor:
    """Who wants no wakes of the engine's: these tests push their own."""
    actor = new_agent(place, "bob")
    actor.post("/v1/wake-subscriptions", trigger="SENT_TO_ME", harness_target="disabled")
    return actor


# -- the handshake era ------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-MCP-PUSH")
def test_a_wake_event_reaches_a_session_in_the_shape_of_the_seed(bob: Actor) -> None:
    with get_stream(bob, open_session(bob)) as stream:
        until_taken(bob, wake(sender="@alice"))
        assert stream.next() == {
            "jsonrpc": "2.0",
            "method": "notifications/message",
            "params": {"level": "info", "logger": "neo-wake-substrate", "data": wake(sender="@alice")},
        }


def test_new_mail_updates_the_inbox_of_who_subscribed(alice: Actor, bob: Actor) -> None:
    with get_stream(bob, open_session(bob, subscribe=True)) as stream:
        until_taken(bob, wake())
        assert stream.next()["method"] == "notifications/message"
        assert stream.next() == UPDATED
        alice.send(bob)
        assert stream.next() == UPDATED


def test_who_did_not_subscribe_or_no_longer_does_hears_only_wakes(alice: Actor, bob: Actor) -> None:
    session = open_session(bob, subscribe=True)
    resource(bob, session, "unsubscribe")
    with get_stream(bob, session) as stream:
        until_taken(bob, wake(n=1))
        alice.send(bob)
        assert stream.next()["params"]["data"]["payload"] == {"n": 1}
        push(bob, wake(n=2))
        assert stream.next()["params"]["data"]["payload"] == {"n": 2}


def test_mail_that_comes_right_after_subscribing_is_told(alice: Actor, bob: Actor) -> None:
    session = open_session(bob)
    with get_stream(bob, session) as stream:
        until_taken(bob, wake())
        assert stream.next()["method"] == "notifications/message"
        for n in range(10):
            alice.send(bob)
            resource(bob, session, "subscribe")
            alice.send(bob)
            assert stream.next() == UPDATED
            resource(bob, session, "unsubscribe")
            push(bob, wake(n=n))
            assert _next_wake(stream) == {"n": n}


def test_one_session_that_unsubscribes_leaves_another_subscribed(alice: Actor, bob: Actor) -> None:
    one, other = open_session(bob, subscribe=True), open_session(bob, subscribe=True)
    resource(bob, one, "unsubscribe")
    with get_stream(bob, one) as quiet, get_stream(bob, other) as told:
        until_taken(bob, wake(n=0), by=2)
        assert (_next_wake(quiet), _next_wake(told), told.next()) == ({"n": 0}, {"n": 0}, UPDATED)
        alice.send(bob)
        assert told.next() == UPDATED
        push(bob, wake(n=1))
        assert quiet.next()["params"]["data"]["payload"] == {"n": 1}


def test_a_client_is_pushed_only_the_events_that_it_declares(bob: Actor) -> None:
    wanted = {"neo-wake-substrate": {"version": "1.0", "supportedEvents": ["wake/permission_granted"]}}
    with get_stream(bob, open_session(bob, experimental=wanted)) as stream:
        until_taken(bob, wake("wake/permission_granted"))
        assert push(bob, wake("wake/sent_to_me"), digest("sent_to_me")) == [0, 0]
        assert push(bob, digest("sent_to_me", "permission_granted")) == [1]
        assert [stream.next()["params"]["data"]["eventType"] for _ in range(2)] == [
            "wake/permission_granted",
            "wake/digest",
        ]


def test_a_session_takes_wakes_only_while_its_stream_is_open(bob: Actor) -> None:
    session = open_session(bob)
    assert push(bob, wake(n=1)) == [0]
    with get_stream(bob, session) as stream:
        until_taken(bob, wake(n=2))
        assert stream.next()["params"]["data"]["payload"] == {"n": 2}
    until_taken(bob, wake(n=3), by=0)


def test_a_level_above_info_turns_wakes_off(bob: Actor) -> None:
    session = open_session(bob)

    def set_level(level: str) -> None:
        assert post(bob.server, bob.token, rpc("logging/setLevel", {"level": level}), Mcp_Session_Id=session).json()

    with get_stream(bob, session) as stream:
        until_taken(bob, wake(n=0))
        assert stream.next()
        set_level("warning")
        assert push(bob, wake(n=1)) == [0]
        set_level("debug")
        assert push(bob, wake(n=2)) == [1]
        assert stream.next()["params"]["data"]["payload"] == {"n": 2}


def test_subscribing_to_anything_else_is_refused_and_unsubscribing_from_it_changes_nothing(
    alice: Actor, bob: Actor
) -> None:
    session = open_session(bob, subscribe=True)
    refused, answer = (
        post(bob.server, bob.token, rpc(f"resources/{verb}", {"uri": "x://y"}), Mcp_Session_Id=session).json()
        for verb in ("subscribe", "unsubscribe")
    )
    assert (refused["error"]["code"], answer["result"]) == (-32602, {})
    with get_stream(bob, session) as stream:
        until_taken(bob, wake())
        assert (_next_wake(stream), stream.next()) == ({}, UPDATED)
        alice.send(bob)
        assert stream.next() == UPDATED


# -- the stateless era ------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-MCP-PUSH")
def test_a_listener_is_cued_by_new_mail_and_by_wakes(alice: Actor, bob: Actor) -> None:
    with listen(bob) as stream:
        acknowledged = stream.next()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {"resourceSubscriptions": [INBOX]}
        alice.send(bob)
        assert stream.next()["params"]["uri"] == INBOX
        assert push(bob, wake()) == [1]
        assert stream.next()["method"] == "notifications/resources/updated"


async def test_the_sdk_client_hears_of_new_mail(alice: Actor, bob: Actor) -> None:
    async with connected(bob, MODERN) as client, client.listen(resource_subscriptions=[INBOX]) as events:
        alice.send(bob)
        async for event in events:
            assert str(getattr(event, "uri", "")) == INBOX
            break


def test_a_listener_that_did_not_ask_for_the_inbox_takes_nothing(alice: Actor, bob: Actor) -> None:
    body, headers = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    with Listening(bob, "POST", body, headers) as stream:
        assert stream.next()["params"]["notifications"] == {"toolsListChanged": True}
        assert push(bob, wake()) == [0]


@pytest.mark.guarantee("G-MCP-PUSH")
def test_listening_to_anothers_inbox_is_refused(alice: Actor, bob: Actor) -> None:
    for uri in (f"wakeline://inbox/{alice.handle}", "wakeline://inbox?of=@human", "x://y"):
        body, headers = modern("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
        answer = post(bob.server, bob.token, body, **headers)
        assert answer.status == 400, answer.body
        assert answer.json()["error"]["code"] == -32602


@pytest.mark.guarantee("G-MCP-PUSH")
def test_nobody_hears_what_is_anothers(alice: Actor, bob: Actor) -> None:
    with listen(alice) as theirs, listen(bob) as own:
        assert theirs.next()
        assert own.next()
        assert push(bob, wake()) == [1]
        alice.send(bob)
        assert own.next()["method"] == "notifications/resources/updated"
        push(alice, wake())
        assert theirs.next()["method"] == "notifications/resources/updated"
        bob.send(alice)
        assert theirs.next()["method"] == "notifications/resources/updated"


# -- other processes --------------------------------------------------------------------------------------------------


async def test_stdio_is_pushed_to_as_well(alice: Actor, bob: Actor) -> None:
    async with piped(bob, MODERN) as client, client.listen(resource_subscriptions=[INBOX]) as events:
        await asyncio.to_thread(until_taken, bob, wake())
        async for event in events:
            assert str(getattr(event, "uri", "")) == INBOX
            break


async def test_stdio_of_the_handshake_era_gets_wake_events(bob: Actor) -> None:
    heard: list[Any] = []
    came = threading.Event()

    async def note(params: Any) -> None:
        heard.append(params)
        came.set()

    async with piped(bob, "legacy", logging_callback=note):
        await asyncio.to_thread(until_taken, bob, wake(n=1))
        assert await asyncio.to_thread(came.wait, 20)
    assert (heard[0].logger, heard[0].data["payload"]) == ("neo-wake-substrate", {"n": 1})


async def test_stdio_of_the_handshake_era_is_told_of_mail_from_the_moment_it_subscribes(
    alice: Actor, bob: Actor
) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def note(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.put_nowait(message)

    subscribe = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=INBOX))
    unsubscribe = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=INBOX))
    async with piped(bob, LEGACY, message_handler=note) as client, asyncio.timeout(30):
        await asyncio.to_thread(until_taken, bob, wake())
        for _ in range(5):
            await client.session.send_request(subscribe, types.EmptyResult)
            await asyncio.to_thread(alice.send, bob)
            assert str((await heard.get()).params.uri) == INBOX
            await client.session.send_request(unsubscribe, types.EmptyResult)


def test_wakes_are_streamed_to_the_principals_own_processes(place: ServerProcess, alice: Actor, bob: Actor) -> None:
    connection = place.connect()
    connection.request(
        "GET", "/v1/wakes?events=wake/sent_to_me,wake/digest", headers={"Authorization": f"Bearer {bob.token}"}
    )
    answer = connection.getresponse()
    assert (answer.status, answer.readline()) == (200, b": connected\n")
    push(bob, wake(n=1))
    lines = [answer.readline() for _ in range(3)]
    assert lines[1] == b"event: wake\n"
    assert b'"payload":{"n":1}' in lines[2]
    assert push(bob, wake("wake/permission_granted")) == [0]
    alice.send(bob)
    seen = b""
    while b"event: inbox" not in seen:
        seen = answer.readline()
    assert b'"unread":1' in answer.readline()
    connection.close()


# -- the traps of the SDK ---------------------------------------------------------------------------------------------


def test_last_event_id_is_ignored(bob: Actor) -> None:
    """Without an event store the SDK answers it with an internal error."""
    with get_stream(bob, open_session(bob), **{"Last-Event-ID": "5"}) as stream:
        assert stream.status == 200
        until_taken(bob, wake())
        assert stream.next()["method"] == "notifications/message"


def test_nobody_opens_the_stream_of_anothers_session(alice: Actor, bob: Actor) -> None:
    with get_stream(alice, open_session(bob)) as stream:
        assert stream.status == 404


@pytest.mark.guarantee("G-MCP-SLOW")
def test_a_session_that_does_not_read_is_ended_and_costs_nobody_else(alice: Actor, bob: Actor) -> None:
    session = open_session(bob)
    with (
        Sleeper(bob, "GET", b"", {"Mcp-Session-Id": session}) as sleeper,
        get_stream(alice, open_session(alice)) as awake,
    ):
        until_taken(bob, wake())
        until_taken(alice, wake())
        assert awake.next()
        for _ in range(60):
            push(bob, *[wake(text=BIG)] * 4)
        began = time.monotonic()
        push(alice, wake(n=1))
        assert awake.next()["params"]["data"]["payload"] == {"n": 1}
        assert time.monotonic() - began < 4
        deadline = time.monotonic() + 30
        while post(bob.server, bob.token, rpc("ping"), Mcp_Session_Id=session).status != 404:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        sleeper.wait_for_end()
        assert "Traceback" not in bob.server.output
    with get_stream(bob, open_session(bob)) as again:
        until_taken(bob, wake(n=2))
        assert again.next()["params"]["data"]["payload"] == {"n": 2}


@pytest.mark.guarantee("G-MCP-SLOW")
def test_a_revoked_token_ends_what_it_listens_to(place: ServerProcess, bob: Actor) -> None:
    session = open_session(bob)
    with get_stream(bob, session) as stream, listen(bob) as listening:
        until_taken(bob, wake(), by=2)
        assert stream.next()
        assert listening.next()
        [token] = operator(place).get("/v1/tokens", handle=bob.handle)["tokens"]
        operator(place).call("DELETE", f"/v1/tokens/{token['jti']}")
        assert _rest(stream)[-1:] in ([], [None])
        _rest(listening)
    error_of(post(place, bob.token, rpc("ping"), Mcp_Session_Id=session), "TOKEN_REVOKED")
    other = new_token(place, bob.handle)
    assert post(place, other.token, rpc("ping"), Mcp_Session_Id=session).status == 404


def test_an_expired_token_ends_what_it_listens_to(place: ServerProcess, bob: Actor) -> None:
    short = new_token(place, bob.handle, seconds=2)
    with listen(short) as stream:
        assert stream.next()
        _rest(stream)


def _next_wake(stream: Listening) -> Any:
    """What the next wake carries; cues to look into the inbox are passed over."""
    told = stream.next()
    while told == UPDATED:
        told = stream.next()
    return told["params"]["data"]["payload"]


def _rest(stream: Listening) -> list[Any]:
    """What comes until the server ends the stream."""
    found = []
    while (message := stream.next()) is not None:
        found.append(message)
    return found


@pytest.mark.guarantee("G-MCP-STOP")
def test_a_server_stops_in_time_with_streams_open(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", command=COMMAND, drain_seconds=20) as server:
        bob = new_agent(server, "bob")
        waiting = threading.Thread(target=_wait, args=(bob,))
        with get_stream(bob, open_session(bob)) as stream, listen(bob) as listening, Listener(bob):
            until_taken(bob, wake(), by=2)
            waiting.start()
            began = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - began < 10
            _rest(stream)
            assert _rest(listening)[-1]["result"]["resultType"] == "complete"
        waiting.join(20)
        assert "Traceback" not in server.output


def _wait(actor: Actor) -> None:
    body, headers = modern("tools/call", {"name": "wait", "arguments": {}}, "wait")
    post(actor.server, actor.token, body, **headers)
