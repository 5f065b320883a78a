"""`events/subscribe` of the draft MCP Events: the SDK's client subscribes, a receiver on loopback is called."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from tests.adapters.receivers import OK, Behaviour, Got, Receiver, answers, hang, status
from tests.databases import fresh_postgres
from tests.faces.http_calls import Actor, new_agent, new_token
from tests.faces.mcp_calls import ERAS, MODERN, connected, modern, post
from wakeline.core.log import parse_position
from wakeline.core.signature import decode_key, standard
from wakeline.runtime.secrets import load_box
from wakeline.testing.server import ServerProcess

SECRET, OTHER = ("whsec_" + base64.b64encode(sign * 32).decode() for sign in (b"s", b"o"))
SETTINGS: dict[str, Any] = {
    "mcp_events": "true",
    "webhook_allow": "127.0.0.0/8",
    "webhook_timeout_seconds": 2,
    "lease_seconds": 15,
    "supervisor_seconds": 1,
    "subscriptions_per_agent": 3,
}


class Told(types.Result):
    """Whatever is answered."""

    model_config = ConfigDict(extra="allow")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("callbacks") / "data"
    if request.param == "sqlite":
        with ServerProcess(data, **SETTINGS) as process:
            yield process
        return
    with fresh_postgres() as url, ServerProcess(data, database=url, **SETTINGS) as process:
        yield process


@pytest.fixture
async def alice(place: ServerProcess) -> Actor:
    return await asyncio.to_thread(new_agent, place, "alice")


@pytest.fixture
async def bob(place: ServerProcess) -> Actor:
    return await asyncio.to_thread(new_agent, place, "bob")


def echoing(behave: Behaviour) -> Behaviour:
    """Says every challenge back, and does with events what it is told to."""

    async def both(got: Got, writer: asyncio.StreamWriter) -> None:
        said = json.loads(got.body)
        if said.get("type") != "verification":
            await behave(got, writer)
            return
        await answers(status(200, json.dumps({"challenge": said["challenge"]}).encode()))(got, writer)

    return both


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver(echoing(answers(OK))) as one:
        yield one


async def ask(actor: Actor, method: str, era: str = MODERN, **params: Any) -> dict[str, Any]:
    request = types.Request[Any, str](method=method, params={"name": "inbox.mail", **params})
    async with connected(actor, era) as client:
        try:
            return (await client.session.send_request(request, Told)).model_extra or {}
        except MCPError as error:
            refusal = error  # raised outside, because the client's own end would wrap it
    raise refusal


async def subscribe(actor: Actor, url: str, secret: str = SECRET, **params: Any) -> dict[str, Any]:
    return await ask(actor, "events/subscribe", delivery={"mode": "webhook", "url": url, "secret": secret}, **params)


async def refused(code: int, asking: Awaitable[Any]) -> Any:
    with pytest.raises(MCPError) as caught:
        await asking
    assert caught.value.error.code == code, caught.value.error
    return caught.value.error.data


async def send(sender: Actor, to: Actor, **fields: Any) -> Any:
    return await asyncio.to_thread(sender.send, to, **fields)


async def callbacks_of(actor: Actor) -> list[Any]:
    found = (await asyncio.to_thread(actor.get, "/v1/wake-subscriptions"))["subscriptions"]
    return [row for row in found if "ends_at" in row]


async def until(check: Callable[[], Awaitable[Any]], seconds: float = 30) -> Any:
    async with asyncio.timeout(seconds):
        while not (found := await check()):  # noqa: ASYNC110 - the other side is a process of its own
            await asyncio.sleep(0.05)
    return found


async def events(receiver: Receiver, number: int) -> list[Got]:
    """At least so many, as they came."""

    async def enough() -> list[Got] | None:
        found = [one for one in receiver.requests if "type" not in json.loads(one.body)]
        return found if len(found) >= number else None

    found: list[Got] = await until(enough)
    return found


def challenges(receiver: Receiver) -> list[Got]:
    return [one for one in receiver.requests if json.loads(one.body).get("type") == "verification"]


def signed(got: Got, *secrets: str) -> bool:
    """By all of these keys, and by no other."""
    parts = (got.header("webhook-id"), int(got.header("webhook-timestamp")), got.body)
    return got.header("webhook-signature").split() == [standard(decode_key(one), *parts) for one in secrets]


@pytest.mark.parametrize("era", ERAS)
async def test_each_mail_reaches_the_callback_as_one_signed_occurrence(
    alice: Actor, bob: Actor, receiver: Receiver, era: str
) -> None:
    place = {"mode": "webhook", "url": receiver.url(), "secret": SECRET}
    made = await ask(bob, "events/subscribe", era, delivery=place, cursor=None)
    assert (made["truncated"], set(made) - {"resultType"}) == (False, {"id", "refreshBefore", "cursor", "truncated"})
    [challenge] = challenges(receiver)
    assert challenge.header("webhook-id").startswith("msg_verification_")
    sent = [await send(alice, bob, subject="Look", body=f"secret {number}") for number in range(2)]
    got = await events(receiver, 2)
    polled = await ask(bob, "events/poll", era, cursor=made["cursor"])
    assert [json.loads(one.body) for one in got] == polled["events"]
    assert [one.header("webhook-id") for one in got] == [one["message_id"] for one in sent]
    for one in [challenge, *got]:
        assert signed(one, SECRET)
        assert one.header("x-mcp-subscription-id") == made["id"]
        assert not any(name.lower().startswith("x-neo") for name in one.headers)
        assert b"secret" not in one.body


async def test_the_event_is_listed_with_its_three_ways(bob: Actor) -> None:
    [event] = (await ask(bob, "events/list"))["events"]
    assert event["delivery"] == ["poll", "push", "webhook"]


WRONG: dict[str, tuple[Behaviour, str]] = {
    "another challenge": (answers(status(200, b'{"challenge":"guess"}')), "challenge_failed"),
    "no JSON": (answers(OK), "challenge_failed"),
    "no object": (answers(status(200, b"[1]")), "challenge_failed"),
    "a refusal": (answers(status(404)), "challenge_failed"),
    "a redirect": (answers(status(302, b"", b"Location: /elsewhere")), "challenge_failed"),
    "nothing": (hang, "timeout"),
}


@pytest.mark.guarantee("G-CALLBACK-ASKED")
@pytest.mark.parametrize(("behave", "reason"), WRONG.values(), ids=WRONG.keys())
async def test_who_does_not_say_the_challenge_back_is_not_called_again(
    alice: Actor, bob: Actor, behave: Behaviour, reason: str
) -> None:
    async with Receiver(behave) as receiver:
        assert await refused(-32015, subscribe(bob, receiver.url())) == {"reason": reason}
        assert await callbacks_of(bob) == []
        await send(alice, bob)
        assert len(receiver.requests) == 1


async def test_where_nobody_listens_there_is_no_callback(bob: Actor, receiver: Receiver) -> None:
    url = receiver.url()
    await receiver.__aexit__()
    assert await refused(-32015, subscribe(bob, url)) == {"reason": "connection_refused"}


async def test_subscribing_again_renews_without_asking_again(alice: Actor, bob: Actor, receiver: Receiver) -> None:
    first = await subscribe(bob, receiver.url(), ttlMs=60_000)
    await send(alice, bob)
    [got] = await events(receiver, 1)
    told = parse_position(json.loads(got.body)["cursor"])

    async def confirmed() -> bool:
        again = await subscribe(bob, receiver.url(), ttlMs=120_000, arguments={}, cursor=first["cursor"])
        assert (again["id"], again["truncated"]) == (first["id"], False)
        assert again["refreshBefore"] > first["refreshBefore"]
        delivered = again["deliveryStatus"]
        assert (delivered["active"], delivered["lastError"]) == (True, None)
        now = parse_position(again["cursor"])  # further, when other rows of the workspace came after this mail
        return now.epoch == told.epoch and now.log_id >= told.log_id and delivered["lastDeliveryAt"] is not None

    await until(confirmed)
    assert len(challenges(receiver)) == 1
    assert len(await callbacks_of(bob)) == 1
    assert len(await events(receiver, 1)) == 1


async def test_a_changed_secret_signs_beside_the_old_one(alice: Actor, bob: Actor, receiver: Receiver) -> None:
    await subscribe(bob, receiver.url())
    await subscribe(bob, receiver.url(), OTHER)
    await subscribe(bob, receiver.url(), OTHER)
    await send(alice, bob)
    [got] = await events(receiver, 1)
    assert signed(got, OTHER, SECRET)


async def test_a_callback_ends_by_itself_and_a_cursor_brings_what_it_missed(
    alice: Actor, bob: Actor, receiver: Receiver
) -> None:
    made = await subscribe(bob, receiver.url(), ttlMs=1_000)

    async def over() -> bool:
        return await callbacks_of(bob) == []

    await until(over)
    missed = [(await send(alice, bob, body=f"text {number}"))["message_id"] for number in range(2)]
    again = await subscribe(bob, receiver.url(), cursor=made["cursor"])
    assert (again["id"], again["truncated"]) == (made["id"], False)
    got = await events(receiver, 2)
    assert [json.loads(one.body)["eventId"] for one in got] == missed
    assert len(challenges(receiver)) == 2


async def test_a_callback_without_end_is_granted_only_to_who_asks_for_it(bob: Actor, receiver: Receiver) -> None:
    place = {"mode": "webhook", "url": receiver.url(), "secret": SECRET}
    body, headers = modern("events/subscribe", {"name": "inbox.mail", "delivery": place, "ttlMs": None})
    answer = await asyncio.to_thread(post, bob.server, bob.token, body, **headers)
    assert b'"refreshBefore":null' in answer.body
    assert (await subscribe(bob, receiver.url()))["refreshBefore"] is not None


async def test_gone_ends_the_callback(alice: Actor, bob: Actor) -> None:
    async with Receiver(echoing(answers(status(410)))) as receiver:
        await subscribe(bob, receiver.url())
        await send(alice, bob)

        async def over() -> bool:
            return await callbacks_of(bob) == []

        await until(over)
        await send(alice, bob, body="more")
        assert len(await events(receiver, 1)) == 1


async def test_what_is_too_large_is_left_out_and_what_is_too_early_comes_again(alice: Actor, bob: Actor) -> None:
    async with Receiver(echoing(answers(status(413), status(425), status(500), OK))) as receiver:
        await subscribe(bob, receiver.url())
        large, early = [(await send(alice, bob, body=f"text {number}"))["message_id"] for number in range(2)]
        got = await events(receiver, 4)
        assert [one.header("webhook-id") for one in got] == [large, early, early, early]
        assert len({one.body for one in got}) == 2
        [row] = await callbacks_of(bob)
        assert row["status"] == "active"


async def test_a_refusal_suspends_until_the_callback_is_renewed(alice: Actor, bob: Actor) -> None:
    async with Receiver(echoing(answers(status(400), OK))) as receiver:
        await subscribe(bob, receiver.url())
        sent = await send(alice, bob)

        async def degraded() -> bool:
            return [row["status"] for row in await callbacks_of(bob)] == ["degraded"]

        await until(degraded)
        told = (await subscribe(bob, receiver.url()))["deliveryStatus"]
        assert (told["active"], told["lastError"]) == (False, "http_4xx")
        got = await events(receiver, 2)
        assert [one.header("webhook-id") for one in got] == [sent["message_id"]] * 2


HOSTILE = (
    "http://example.org/hook",
    "http://localhost.example/hook",
    "https://10.0.0.1/hook",
    "https://169.254.169.254/latest/meta-data",
    "https://[::1]/hook",
    "https://[::ffff:10.0.0.1]/hook",
    "https://me:word@example.org/hook",
    "https://0x7f000001/hook",
    "ftp://example.org/hook",
    "file:///etc/passwd",
    "",
)


@pytest.mark.parametrize("url", HOSTILE)
async def test_a_hostile_url_is_refused_unasked(bob: Actor, url: str) -> None:
    await refused(-32602, subscribe(bob, url))
    assert await callbacks_of(bob) == []


async def test_what_the_draft_does_not_allow_is_refused_in_its_numbers(bob: Actor, receiver: Receiver) -> None:
    for secret in ("", "whsec_", "whsec_c2hvcnQ=", SECRET.removeprefix("whsec_"), "whsec_" + "A" * 92):
        await refused(-32602, subscribe(bob, receiver.url(), secret))
    place = {"url": receiver.url(), "secret": SECRET}
    assert await refused(-32011, ask(bob, "events/subscribe", delivery=place, name="weather")) == {"kind": "event"}
    await refused(-32602, ask(bob, "events/subscribe", delivery=place, arguments={"sender": "@alice"}))
    await refused(-32602, ask(bob, "events/subscribe", delivery=place, cursor="nonsense"))
    await refused(-32602, ask(bob, "events/subscribe"))
    other = {"feature": "deliveryMode", "value": "push"}
    assert await refused(-32014, ask(bob, "events/subscribe", delivery={**place, "mode": "push"})) == other
    assert receiver.requests == []
    for number in range(3):
        await subscribe(bob, receiver.url(f"/{number}"))
    limited = await refused(-32013, subscribe(bob, receiver.url("/4")))
    assert (limited["limit"], limited["max"]) == ("subscriptions", 3)
    assert len(receiver.requests) == 3


async def test_a_position_of_another_history_is_a_gap(bob: Actor, receiver: Receiver) -> None:
    made = await subscribe(bob, receiver.url(), cursor="ffff-3")
    assert made["truncated"]


async def test_a_callback_is_its_owners_alone(alice: Actor, bob: Actor, receiver: Receiver) -> None:
    made = await subscribe(bob, receiver.url())
    place = {"url": receiver.url()}
    assert (await refused(-32011, ask(alice, "events/unsubscribe", delivery=place)))["kind"] == "subscription"
    hers = await subscribe(alice, receiver.url(), OTHER)
    assert hers["id"] != made["id"]
    assert len(challenges(receiver)) == 2
    await send(alice, bob)
    [got] = await events(receiver, 1)
    assert signed(got, SECRET)
    assert got.header("x-mcp-subscription-id") == made["id"]
    body, headers = modern("events/subscribe", {"name": "inbox.mail", "delivery": {**place, "secret": SECRET}})
    for token in (None, "nonsense"):
        assert (await asyncio.to_thread(post, bob.server, token, body, **headers)).status == 401
    await ask(bob, "events/unsubscribe", delivery=place)
    await refused(-32011, ask(bob, "events/unsubscribe", delivery=place))
    assert [await callbacks_of(bob), len(await callbacks_of(alice))] == [[], 1]


async def test_who_may_not_write_has_nobody_called(place: ServerProcess, receiver: Receiver) -> None:
    eve = await asyncio.to_thread(new_agent, place, "eve", "auditor")
    auditor = await asyncio.to_thread(lambda: new_token(place, eve.handle, role="auditor"))
    assert (await refused(-32012, subscribe(auditor, receiver.url())))["code"] == "ROLE_FORBIDDEN"
    assert receiver.requests == []


async def test_no_other_door_changes_what_the_receiver_was_promised(bob: Actor, receiver: Receiver) -> None:
    made = await subscribe(bob, receiver.url())
    path = f"/v1/wake-subscriptions/{made['id']}"
    elsewhere = {"harness_target_metadata": {"url": "https://example.org/elsewhere"}}
    for method, door, body in (
        ("PATCH", path, elsewhere),
        ("POST", f"{path}/rotate-key", {}),
        ("POST", f"{path}/resync", {"since_log_id": 0}),
    ):
        answer = await asyncio.to_thread(bob.call, method, door, body)
        assert (answer.status, answer.json()["error"]["code"]) == (409, "MCP_EVENT_SUBSCRIPTION")
    plain = {"trigger": "SENT_TO_ME", "harness_target_metadata": {"url": receiver.url()}}
    other = await asyncio.to_thread(lambda: bob.post("/v1/wake-subscriptions", **plain))
    assert other["subscription_id"] != made["id"]
    assert (await asyncio.to_thread(bob.call, "DELETE", path)).status == 200
    assert await callbacks_of(bob) == []


# -- dying ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres"])
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    load_box(data, "", make=True)
    if request.param == "sqlite":
        with ServerProcess(data, **SETTINGS) as process:
            yield process
        return
    with fresh_postgres() as url, ServerProcess(data, database=url, **SETTINGS) as process:
        yield process


@pytest.mark.guarantee("G-CALLBACK-ASKED")
async def test_a_server_that_is_killed_while_it_asks_has_made_no_callback(mortal: ServerProcess) -> None:
    bob = await asyncio.to_thread(new_agent, mortal, "bob")
    async with Receiver(hang) as receiver:
        asking = asyncio.create_task(subscribe(bob, receiver.url()))

        async def asked() -> bool:
            return bool(receiver.requests)

        await until(asked)
        mortal.kill()
        with pytest.raises(Exception):  # noqa: B017, PT011 - however the SDK tells of a server that is gone
            await asking
    await asyncio.to_thread(mortal.start)
    assert await callbacks_of(bob) == []


async def test_a_server_that_is_killed_while_it_delivers_sends_the_same_bytes_again(mortal: ServerProcess) -> None:
    alice, bob = [await asyncio.to_thread(new_agent, mortal, name) for name in ("alice", "bob")]
    calls = iter([hang])

    async def first_hang(got: Got, writer: asyncio.StreamWriter) -> None:
        await next(calls, answers(OK))(got, writer)

    async with Receiver(echoing(first_hang)) as receiver:
        made = await subscribe(bob, receiver.url())
        await send(alice, bob)
        await events(receiver, 1)
        mortal.kill()
        await asyncio.to_thread(mortal.start)
        first, second, *more = await events(receiver, 2)
        assert (first.body, more) == (second.body, [])
        assert signed(second, SECRET)
        assert second.header("x-mcp-subscription-id") == made["id"]
        assert (await subscribe(bob, receiver.url()))["id"] == made["id"]
        assert len(challenges(receiver)) == 1
