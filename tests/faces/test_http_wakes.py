"""From a post to a webhook and back, through a real server: what the receiver gets, and what can be looked at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import pytest

from tests.adapters.receivers import OK, Receiver, answers, hang, status
from tests.databases import fresh_postgres
from tests.faces.http_calls import Actor
from tests.faces.mcp_streams import get_stream, open_session, until_heard
from wakeline import webhooks
from wakeline.testing.server import ServerProcess

SETTINGS: dict[str, Any] = {
    "webhook_allow": "127.0.0.0/8",
    "webhook_timeout_seconds": 1,
    "lease_seconds": 15,
    "supervisor_seconds": 1,
}
_numbers = count(1)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def waking(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("waking") / "data"
    if request.param == "sqlite":
        with ServerProcess(data, **SETTINGS) as process:
            yield process
        return
    with fresh_postgres() as url, ServerProcess(data, database=url, **SETTINGS) as process:
        yield process


class Agent:
    def __init__(self, server: ServerProcess, name: str) -> None:
        self.server = server
        self.handle = f"@{name}{next(_numbers)}"
        self.token = server.add_agent(self.handle)

    async def call(self, method: str, path: str, body: Any = None, *, expect: int | None = None) -> Any:
        answer = await asyncio.to_thread(self.server.call, method, path, body, token=self.token)
        assert expect is None or answer.status == expect, answer.body
        return answer.json()

    async def send(self, to: Agent, **fields: Any) -> Any:
        said = {"to": [to.handle], "body": f"text {next(_numbers)}", **fields}  # the same again and again is a loop
        return await self.call("POST", "/v1/messages", said, expect=201)

    async def subscribe(self, url: str, window: int = 0, **fields: Any) -> Any:
        metadata = {"url": url, "coalesce_window": window}
        request = {"trigger": "SENT_TO_ME", "harness_target_metadata": metadata, **fields}
        return await self.call("POST", "/v1/wake-subscriptions", request, expect=201)

    async def deliveries(self, **query: str) -> list[Any]:
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        found: list[Any] = (await self.call("GET", f"/v1/deliveries?{asked}", expect=200))["deliveries"]
        return found


async def until(check: Callable[[], Awaitable[Any]], seconds: float = 30) -> Any:
    async with asyncio.timeout(seconds):
        while not (found := await check()):  # noqa: ASYNC110 - the other side is a process of its own
            await asyncio.sleep(0.05)
    return found


@pytest.fixture
async def ann(waking: ServerProcess) -> Agent:
    return await asyncio.to_thread(Agent, waking, "ann")


@pytest.fixture
async def bob(waking: ServerProcess) -> Agent:
    return await asyncio.to_thread(Agent, waking, "bob")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver(answers(OK)) as one:
        yield one


async def requests(receiver: Receiver, number: int) -> list[Any]:
    async def enough() -> bool:
        return len(receiver.requests) >= number

    await until(enough)
    return receiver.requests


async def test_a_message_reaches_its_receivers_webhook_signed_with_the_key_shown_once(
    ann: Agent, bob: Agent, receiver: Receiver
) -> None:
    made = await bob.subscribe(receiver.url())
    assert made["harness_target"] == "a2a-webhook"
    sent = await ann.send(bob, subject="Look at this")
    [got] = await requests(receiver, 1)
    event = webhooks.verify(got.body, got.headers, made["signing_key"])
    assert event["payload"]["messageId"] == sent["message_id"]
    assert event["logId"] == sent["log_id"]
    shown = await bob.call("GET", f"/v1/wake-subscriptions/{made['subscription_id']}", expect=200)
    assert "signing_key" not in shown


async def test_a_webhook_is_hinted_at_on_the_receivers_connections_once(ann: Agent, bob: Agent) -> None:
    listening = Actor(bob.server, bob.handle, bob.token)
    async with Receiver(answers(status(500), OK, OK)) as receiver:
        await bob.subscribe(receiver.url())
        session = await asyncio.to_thread(open_session, listening)
        with await asyncio.to_thread(get_stream, listening, session) as stream:
            await asyncio.to_thread(until_heard, listening)
            for tried in (2, 3):  # the first is sent twice, and hinted at once
                sent = await ann.send(bob)
                await requests(receiver, tried)
                told = (await asyncio.to_thread(stream.next))["params"]["data"]
                assert (told["eventType"], told["logId"]) == ("wake/sent_to_me", sent["log_id"])


@pytest.mark.guarantee("G-WAKE-EVIDENCE")
async def test_every_step_of_a_delivery_can_be_looked_at(ann: Agent, bob: Agent, receiver: Receiver) -> None:
    await bob.subscribe(receiver.url())
    await ann.send(bob)
    [row] = await until(lambda: bob.deliveries(outcome="delivered"))
    shown = await bob.call("GET", f"/v1/deliveries/{row['delivery_id']}", expect=200)
    assert [step["step"] for step in shown["steps"]] == ["queued", "attempt", "triggered"]
    assert (shown["step"], shown["outcome"], shown["attempts"]) == ("triggered", "delivered", 1)
    assert shown["body"] == json.loads(receiver.requests[0].body)


@pytest.mark.guarantee("G-WAKE-EVIDENCE")
async def test_a_delivery_is_nobody_elses_business(ann: Agent, bob: Agent, receiver: Receiver) -> None:
    made = await bob.subscribe(receiver.url())
    await ann.send(bob)
    [row] = await until(bob.deliveries)
    assert await ann.deliveries() == []
    for method, path, body in (
        ("GET", f"/v1/deliveries/{row['delivery_id']}", None),
        ("POST", f"/v1/deliveries/{row['delivery_id']}/retry", None),
        ("POST", f"/v1/wake-subscriptions/{made['subscription_id']}/resync", {"since_log_id": 0}),
    ):
        await ann.call(method, path, body, expect=404)
    await ann.call("GET", f"/v1/deliveries?handle={bob.handle}", expect=403)


async def test_a_receiver_that_fails_gets_the_same_bytes_again(ann: Agent, bob: Agent) -> None:
    async with Receiver(answers(status(500), status(503), OK)) as receiver:
        await bob.subscribe(receiver.url())
        await ann.send(bob)
        got = await requests(receiver, 3)
        assert len({(one.body, one.header("webhook-id")) for one in got}) == 1
        [row] = await until(lambda: bob.deliveries(outcome="delivered"))
        assert row["attempts"] == 3


async def test_a_receiver_that_hangs_costs_nobody_else_anything(ann: Agent, bob: Agent, receiver: Receiver) -> None:
    async with Receiver(hang) as stuck:
        await bob.subscribe(stuck.url())
        await ann.subscribe(receiver.url())
        await ann.send(bob)
        await requests(stuck, 1)
        await bob.send(ann)
        await requests(receiver, 1)


async def test_a_refusal_degrades_and_resume_brings_out_what_was_missed(ann: Agent, bob: Agent) -> None:
    async with Receiver(answers(status(410), OK)) as receiver:
        made = await bob.subscribe(receiver.url())
        path = f"/v1/wake-subscriptions/{made['subscription_id']}"
        await ann.send(bob)

        async def degraded() -> bool:
            return bool((await bob.call("GET", path))["status"] == "degraded")

        await until(degraded)
        await ann.send(bob)
        await asyncio.sleep(0.3)
        assert len(receiver.requests) == 1
        await bob.call("POST", f"{path}/resume", {}, expect=200)
        got = await requests(receiver, 3)
        events = [json.loads(one.body) for one in got]
        assert events[1]["logId"] == events[0]["logId"] < events[2]["logId"]
        assert events[1]["eventId"] != events[0]["eventId"]


async def test_what_failed_can_be_sent_again_by_its_owner(ann: Agent, bob: Agent) -> None:
    async with Receiver(answers(status(400), OK)) as receiver:
        made = await bob.subscribe(receiver.url())
        await ann.send(bob)
        [row] = await until(lambda: bob.deliveries(outcome="failed"))
        again = await bob.call("POST", f"/v1/deliveries/{row['delivery_id']}/retry", expect=201)
        got = await requests(receiver, 2)
        assert got[0].body == got[1].body
        await until(lambda: bob.deliveries(outcome="delivered"))
        await bob.call("POST", f"/v1/deliveries/{again['delivery_id']}/retry", expect=409)
        assert made["subscription_id"] == again["subscription_id"]


@pytest.mark.guarantee("G-WAKE-FLOOD")
async def test_a_flood_becomes_one_wake_and_one_digest(ann: Agent, bob: Agent, receiver: Receiver) -> None:
    await bob.subscribe(receiver.url(), window=6)
    for _ in range(30):
        await ann.send(bob)
    got = [json.loads(one.body) for one in await requests(receiver, 2)]
    # On a slow machine the first wake may already tell of a few.
    assert sum(one["payload"].get("totalEvents", 1) for one in got) == 30
    assert got[1]["eventType"] == "wake/digest"
    await asyncio.sleep(0.5)
    assert len(receiver.requests) == 2


@pytest.mark.guarantee("G-RESYNC")
async def test_resync_replays_what_is_unread_as_one_digest_with_new_event_ids(
    ann: Agent, bob: Agent, receiver: Receiver
) -> None:
    first = await ann.send(bob)
    made = await bob.subscribe(receiver.url())
    *_, last = [await ann.send(bob) for _ in range(3)]
    live = [json.loads(one.body) for one in await requests(receiver, 3)]
    await bob.call("POST", "/v1/inbox/ack", {"message_ids": [last["message_id"]]}, expect=200)
    path = f"/v1/wake-subscriptions/{made['subscription_id']}/resync"
    answer = await bob.call("POST", path, {"since_log_id": first["log_id"] - 1}, expect=200)
    assert (answer["events_replayed"], answer["clamped"]) == (3, False)
    again = json.loads((await requests(receiver, 4))[3].body)
    assert again["eventType"] == "wake/digest"
    assert again["logId"] == live[1]["logId"]
    assert again["eventId"] not in {one["eventId"] for one in live}
    nothing = await bob.call("POST", path, {"since_log_id": answer["last_log_id"]}, expect=200)
    assert (nothing["events_replayed"], nothing["delivery_id"]) == (0, None)


POSITIONS = {
    "negative": ({"since_log_id": -1}, 400),
    "corrupt": ({"since_log_id": "x"}, 400),
    "missing": ({}, 400),
    "another epoch": ({"since_log_id": 1, "epoch": "zzzz"}, 410),
    "future": ({"since_log_id": 2**50}, 200),
    "from the start": ({"since_log_id": 0}, 200),
}


MANAGED = {"since_log_id": "sinceLogId", "epoch": "epoch"}  # the same in the wake protocol's spelling


async def resync(agent: Agent, door: str, subscription_id: str, body: dict[str, Any], expect: int) -> Any:
    """By either door; what they answer alike is spelled alike here."""
    if door == "resource":
        return await agent.call("POST", f"/v1/wake-subscriptions/{subscription_id}/resync", body, expect=expect)
    spelled = {MANAGED[name]: value for name, value in body.items()}
    asked = {"action": "resync", "subscriptionId": subscription_id, **spelled}
    answer = await agent.call("POST", "/v1/manage-wake-subscription", asked, expect=expect)
    return {"events_replayed": answer["eventsReplayed"], **answer} if "eventsReplayed" in answer else answer


@pytest.mark.guarantee("G-RESYNC")
@pytest.mark.parametrize("door", ["resource", "protocol"])
@pytest.mark.parametrize(("body", "expect"), POSITIONS.values(), ids=POSITIONS.keys())
async def test_a_position_is_judged_before_anything_is_replayed(
    bob: Agent, receiver: Receiver, body: dict[str, Any], expect: int, door: str
) -> None:
    made = await bob.subscribe(receiver.url())
    answer = await resync(bob, door, made["subscription_id"], body, expect)
    if expect == 410:
        assert answer["error"]["details"]["unread"] == 0
    if "events_replayed" in answer:
        assert answer["clamped"] is (body["since_log_id"] > 0)
    assert receiver.requests == []


@pytest.mark.guarantee("G-RESYNC")
@pytest.mark.parametrize("door", ["resource", "protocol"])
async def test_a_position_older_than_the_log_is_an_error_that_carries_the_unread_state(
    waking: ServerProcess, ann: Agent, bob: Agent, receiver: Receiver, door: str
) -> None:
    made = await bob.subscribe(receiver.url())
    sent = await ann.send(bob)
    await ann.send(bob)
    await requests(receiver, 2)

    async def forgotten() -> bool:
        pruned = await asyncio.to_thread(waking.call, "POST", "/v1/prune", {"keep": 0})
        return bool(pruned.json()["first_log_id"] > sent["log_id"] + 1)

    await until(forgotten)  # not before the matcher has stored how far it is
    answer = await resync(bob, door, made["subscription_id"], {"since_log_id": sent["log_id"]}, 410)
    assert answer["error"]["code"] == "POSITION_EXPIRED"
    assert answer["error"]["details"]["unread"] == 2
    await asyncio.sleep(0.3)
    assert len(receiver.requests) == 2
