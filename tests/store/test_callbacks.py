"""Callbacks on both databases: what is missing is found once, nothing comes after the end, a cursor skips nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.store.bells import Bell
from tests.store.builders import UNGUARDED, agent, new_id, open_workspace, send
from tests.store.places import SqlitePlace
from wakeline import wire
from wakeline.core.instant import SECOND
from wakeline.core.log import Workspace
from wakeline.core.parcel import Accepted, Failed, Parcel, Refused, Result
from wakeline.core.store import Store
from wakeline.core.subscription import callback_id, callback_of
from wakeline.core.subscription_queries import OneSubscription
from wakeline.errors import Conflict, Forbidden, NotFound, RateLimited
from wakeline.flow.ack import AckMessages
from wakeline.flow.plan import Planned
from wakeline.flow.register import FillCallback, RegisterCallback
from wakeline.service import Hub, callbacks
from wakeline.service.callbacks import Callbacks
from wakeline.service.context import Context
from wakeline.service.log import Logs
from wakeline.service.subscriptions import Keys

URL = "https://hooks.example.org/mcp"
SECRET = "whsec_" + "c3Nz" * 8
HOUR = timedelta(hours=1)


class Desk:
    """The service over a real store; only the receiver, and how a key is sealed, are ours."""

    def __init__(self, store: Store, workspace: Workspace) -> None:
        self.bell = Bell(store, workspace, wake_budget_per_hour=1_000)
        self.bob = agent(workspace, "@bob")
        self.asked: list[Parcel] = []
        self.answer: Result | None = None
        self.meanwhile: Callable[[], Awaitable[object]] = partial(asyncio.sleep, 0)  # while its receiver is asked
        context = Context(store, UNGUARDED, new_id)
        keys = Keys(lambda: b"c" * 32, lambda key: f"sealed {key.hex()}", self._unseal, HOUR)
        logs = Logs(context, Hub(store))
        self.callbacks = Callbacks(
            context, keys, logs, self._ask, allowed=(), limit=2, budget=9, timeout=timedelta(seconds=1)
        )

    @staticmethod
    def _unseal(sealed: str) -> bytes:
        return bytes.fromhex(sealed.removeprefix("sealed "))

    async def _ask(self, parcel: Parcel, challenge: str) -> Result:
        assert json.loads(parcel.body) == {"type": "verification", "challenge": challenge}
        self.asked.append(parcel)
        await self.meanwhile()
        return self.answer or Accepted(200, "")

    async def subscribe(self, url: str = URL, secret: str = SECRET, **fields: Any) -> wire.EventsSubscribed:
        return await self.callbacks.subscribe(self.bob, wire.SubscribeEvents(url=url, secret=secret, **fields))

    def command(self, **fields: Any) -> RegisterCallback:
        command = RegisterCallback(
            caller=self.bob,
            subscription_id=callback_id(self.bob.workspace_id, "@bob", URL),
            url=URL,
            sealed_key=f"sealed {'73' * 24}",
            same_key=True,
            overlap=HOUR,
            life=HOUR,
            after=None,
            limit=2,
            budget=9,
            verified=True,
        )
        return msgspec.structs.replace(command, **fields)

    async def mail(self, number: int = 1) -> list[Any]:
        ann = agent(self.bell.workspace, "@ann")
        return [await send(self.bell.store, ann, "@bob", f"text {new_id()}") for _ in range(number)]

    async def drain(self, planned: list[Planned]) -> list[Any]:
        """Bring out one after another; answers what went out."""
        out = []
        while planned:
            [one] = planned
            out.append(json.loads(one.delivery.body))
            settled = await self.bell.settle(one)
            planned = [] if settled.planned is None else [settled.planned]
        return out

    def position(self, log_id: int) -> str:
        return f"{self.bell.workspace.epoch}-{log_id}"


@pytest.fixture
async def desk(store: Store, workspace: Workspace) -> Desk:
    return Desk(store, workspace)


async def test_what_came_before_the_callback_is_found_once(desk: Desk) -> None:
    sent = await desk.mail(3)
    made = await desk.subscribe(cursor=desk.position(sent[0].log_id))
    assert (made.truncated, made.cursor) == (False, desk.position(sent[1].log_id - 1))
    again = await desk.subscribe(cursor=desk.position(sent[0].log_id))
    assert again.cursor == made.cursor
    out = await desk.drain(await desk.bell.flush())
    assert [one["eventId"] for one in out] == [one.message_id for one in sent[1:]]
    assert [one["cursor"] for one in out] == [desk.position(sent[2].log_id - 1), desk.position(sent[2].log_id)]
    assert len(desk.asked) == 1


@pytest.mark.guarantee("G-CALLBACK-CURSOR")
async def test_who_died_between_making_and_filling_is_made_good_by_the_next_call(desk: Desk) -> None:
    [first, second] = await desk.mail(2)
    made = await desk.bell.store.submit(desk.command(after=first.log_id - 1))
    assert made is not None
    assert made.confirmed == first.log_id - 1
    [third] = await desk.mail()
    [live] = await desk.bell.match()
    assert json.loads(live.delivery.body)["cursor"] == desk.position(first.log_id - 1)
    assert (await desk.subscribe()).cursor == desk.position(first.log_id - 1)
    out = await desk.drain([live])
    assert [one["eventId"] for one in out] == [one.message_id for one in (third, first, second)]
    assert out[-1]["cursor"] == desk.position(second.log_id)


async def test_filling_twice_adds_nothing(desk: Desk) -> None:
    [sent] = await desk.mail()
    made = await desk.subscribe(cursor=desk.position(sent.log_id - 1))
    await desk.drain(await desk.bell.flush())
    again = await desk.bell.store.submit(FillCallback(desk.bob.workspace_id, made.id, ()))
    assert again is not None
    assert callback_of(again.subscription) is not None
    assert await desk.drain(await desk.bell.flush_these(made.id)) == []


async def test_a_long_absence_is_bounded_and_said(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "REPLAYED", 2)
    monkeypatch.setattr(callbacks, "PAGE", 1)
    sent = await desk.mail(4)
    made = await desk.subscribe(cursor=desk.position(sent[0].log_id - 1))
    assert made.truncated
    out = await desk.drain(await desk.bell.flush())
    assert [one["eventId"] for one in out] == [one.message_id for one in sent[2:]]


@pytest.mark.guarantee("G-CALLBACK-CURSOR")
async def test_what_is_pruned_while_the_receiver_is_asked_is_said(desk: Desk) -> None:
    sent = await desk.mail(4)
    await desk.bell.store.index()  # pruning waits for it, and for the matcher
    await desk.bell.match()
    await desk.bell.matcher.save()
    desk.meanwhile = partial(desk.bell.store.prune, desk.bob.workspace_id, before=None, keep=2)
    made = await desk.subscribe(cursor=desk.position(sent[0].log_id - 1))
    out = await desk.drain(await desk.bell.flush())
    assert [one["eventId"] for one in out] == [one.message_id for one in sent[2:]]
    assert made.truncated


async def test_what_is_older_than_the_client_wants_is_left_out_and_said(sqlite: SqlitePlace) -> None:
    store = await sqlite.open()
    desk = Desk(store, await open_workspace(store, "@ann", "@bob"))
    [old] = await desk.mail()
    sqlite.now += 60 * SECOND
    [recent] = await desk.mail()
    made = await desk.subscribe(cursor=desk.position(old.log_id - 1), max_age_ms=30_000)
    assert made.truncated
    [told] = await desk.drain(await desk.bell.flush())
    assert told["eventId"] == recent.message_id


async def test_what_was_read_is_not_told(desk: Desk) -> None:
    [read, unread] = await desk.mail(2)
    await desk.bell.store.submit(AckMessages(desk.bob, (read.message_id,)))
    await desk.subscribe(cursor=desk.position(read.log_id - 1))
    [told] = await desk.drain(await desk.bell.flush())
    assert told["eventId"] == unread.message_id


async def test_nothing_is_called_after_the_end(desk: Desk) -> None:
    made = await desk.bell.store.submit(desk.command(life=timedelta(0)))
    assert made is not None
    await desk.mail()
    assert await desk.bell.match() == []
    assert await desk.bell.store.read(OneSubscription(desk.bob.workspace_id, made.subscription.subscription_id)) == []
    assert await desk.bell.flush() == []


async def test_a_callback_ends_also_while_it_is_suspended(desk: Desk) -> None:
    await desk.bell.store.submit(desk.command())
    await desk.mail()
    [planned] = await desk.bell.match()
    await desk.bell.settle(planned, Refused(400, "rejected", "HTTP 400"))
    made = await desk.bell.store.submit(desk.command(life=timedelta(0)))
    assert made is not None
    assert made.was == "degraded"
    await desk.bell.flush()
    assert await desk.bell.store.read(OneSubscription(desk.bob.workspace_id, made.subscription.subscription_id)) == []


async def test_a_suspended_callback_keeps_its_end(desk: Desk) -> None:
    made = await desk.bell.store.submit(desk.command())
    assert made is not None
    await desk.mail()
    [planned] = await desk.bell.match()
    await desk.bell.settle(planned, Refused(400, "rejected", "HTTP 400"))
    [row] = await desk.bell.store.read(OneSubscription(desk.bob.workspace_id, made.subscription.subscription_id))
    callback = callback_of(row)
    assert callback is not None
    assert row.flush_at == callback.ends_at


@pytest.mark.guarantee("G-CALLBACK-CURSOR")
async def test_an_event_that_waits_behind_a_failure_holds_the_cursor_back(desk: Desk) -> None:
    made = await desk.subscribe()
    [first] = await desk.mail()
    [planned] = await desk.bell.match()
    await desk.bell.settle(planned, Failed("tls", "a certificate of somebody else's", retryable=False))
    [second] = await desk.mail()
    [live] = await desk.bell.match()
    said = json.loads(live.delivery.body)
    assert said["eventId"] == second.message_id
    assert said["cursor"] == desk.position(first.log_id - 1)
    assert (await desk.subscribe()).cursor == desk.position(first.log_id - 1)
    assert made.refresh_before is not None


async def test_gone_drops_what_waits(desk: Desk) -> None:
    made = await desk.subscribe()
    await desk.mail(2)
    [planned] = await desk.bell.match()
    settled = await desk.bell.settle(planned, Refused(410, "rejected", "HTTP 410"))
    assert settled.planned is None
    assert await desk.bell.store.read(OneSubscription(desk.bob.workspace_id, made.id)) == []
    [delivery] = await desk.bell.deliveries()
    assert (delivery.outcome, delivery.reason) == ("failed", "gone")


async def test_a_callback_made_again_is_asked_again_and_gets_what_its_client_lacks(desk: Desk) -> None:
    made = await desk.subscribe()
    [sent] = await desk.mail()
    await desk.drain(await desk.bell.match())
    await desk.callbacks.unsubscribe(desk.bob, URL)
    with pytest.raises(NotFound):
        await desk.callbacks.unsubscribe(desk.bob, URL)
    again = await desk.subscribe(cursor=desk.position(sent.log_id - 1))
    assert again.id == made.id
    [told] = await desk.drain(await desk.bell.flush())
    assert told["eventId"] == sent.message_id
    assert len(desk.asked) == 2


REASONS: dict[str, tuple[Result, str]] = {
    "a wrong echo": (Refused(200, "challenge_failed", ""), "challenge_failed"),
    "an error of the receiver's": (Failed("server_error", ""), "challenge_failed"),
    "silence": (Failed("timeout", ""), "timeout"),
    "a bad certificate": (Failed("tls", ""), "tls_error"),
    "a name that leads inside": (
        Failed("address_refused", "10.0.0.1 is private", retryable=False),
        "connection_refused",
    ),
}


@pytest.mark.parametrize(("answer", "reason"), REASONS.values(), ids=REASONS.keys())
async def test_a_caller_learns_one_word_of_an_endpoint(desk: Desk, answer: Result, reason: str) -> None:
    desk.answer = answer
    with pytest.raises(Conflict) as caught:
        await desk.subscribe()
    assert (caught.value.code, caught.value.details) == ("CALLBACK_UNVERIFIED", {"reason": reason})


@pytest.mark.guarantee("G-CALLBACK-ASKED")
async def test_nobody_is_pestered_by_asking(desk: Desk) -> None:
    desk.answer = Refused(404, "rejected", "")
    for _ in range(9):
        with pytest.raises(Conflict):
            await desk.subscribe()
    with pytest.raises(RateLimited) as caught:
        await desk.subscribe()
    assert caught.value.details["retry_after_seconds"] > 0
    assert len(desk.asked) == 9


async def test_who_has_enough_subscriptions_calls_nobody(desk: Desk) -> None:
    for number in range(2):
        await desk.subscribe(f"{URL}/{number}")
    with pytest.raises(Forbidden):
        await desk.subscribe(f"{URL}/3")
    assert len(desk.asked) == 2
    await desk.subscribe(f"{URL}/1")
