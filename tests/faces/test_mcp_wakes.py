"""Wakes through MCP: from a post to the notification on its receiver's own connection, with the evidence beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.faces.http_calls import Actor, new_agent
from tests.faces.mcp_streams import get_stream, open_session
from wakeline.testing.server import ServerProcess

_texts = count(1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data: Path = tmp_path_factory.mktemp("wakes") / "data"
    with ServerProcess(data, coalesce_seconds=0, supervisor_seconds=1) as process:
        yield process


@pytest.fixture
def alice(place: ServerProcess) -> Actor:
    return new_agent(place, "alice")


@pytest.fixture
def bob(place: ServerProcess) -> Actor:
    return new_agent(place, "bob")


def say(sender: Actor, *to: Actor, **fields: Any) -> Any:
    return sender.send(*to, body=f"text {next(_texts)}", **fields)


def until(check: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 20
    while not (found := check()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def routes(actor: Actor) -> list[str]:
    return [row["harness_target"] for row in actor.get("/v1/wake-subscriptions")["subscriptions"]]


def test_an_agent_that_connects_is_woken_for_its_mail(alice: Actor, bob: Actor) -> None:
    with get_stream(bob, open_session(bob)) as stream:
        until(lambda: routes(bob) == ["mcp-notifications"])
        sent = say(alice, bob, subject="Look")
        note = stream.next()
        assert (note["method"], note["params"]["logger"]) == ("notifications/message", "neo-wake-substrate")
        event = note["params"]["data"]
        assert (event["eventType"], event["logId"]) == ("wake/sent_to_me", sent["log_id"])
        assert event["payload"]["messageId"] == sent["message_id"]
        [row] = until(lambda: bob.get("/v1/deliveries", outcome="delivered")["deliveries"])
        assert (row["step"], row["target"]) == ("triggered", "mcp-notifications")


def test_what_waits_for_a_receiver_comes_when_it_connects(alice: Actor, bob: Actor) -> None:
    made = bob.post("/v1/wake-subscriptions", trigger="SENT_TO_ME", harness_target="mcp-notifications")
    sent = say(alice, bob)
    path = f"/v1/wake-subscriptions/{made['subscription_id']}"
    until(lambda: [one["reason"] for one in bob.get(path)["held"]] == ["no_connection"])
    with get_stream(bob, open_session(bob)) as stream:
        assert stream.next()["params"]["data"]["payload"]["messageId"] == sent["message_id"]


def test_who_turned_waking_off_is_not_woken_by_connecting(alice: Actor, bob: Actor) -> None:
    bob.post("/v1/wake-subscriptions", trigger="SENT_TO_ME", harness_target="disabled")
    with get_stream(bob, open_session(bob)):
        say(alice, bob)
        until(lambda: bob.get("/v1/inbox")["unread"] == 1)
        assert routes(bob) == ["disabled"]
        assert bob.get("/v1/deliveries")["deliveries"] == []


def test_nobody_else_is_pushed_to(alice: Actor, bob: Actor, place: ServerProcess) -> None:
    carol = new_agent(place, "carol")
    with get_stream(carol, open_session(carol)) as stream, get_stream(bob, open_session(bob)) as mine:
        until(lambda: routes(bob) == routes(carol) == ["mcp-notifications"])
        say(alice, bob)
        assert mine.next()["params"]["data"]["agentIdentity"] == bob.handle
        say(alice, carol)
        assert stream.next()["params"]["data"]["agentIdentity"] == carol.handle
