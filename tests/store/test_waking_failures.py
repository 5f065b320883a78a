"""Receivers that fail: how often they are tried, what comes to them again and under which id, and what is counted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.store.bells import Bell, a_bell, body, stored
from tests.store.builders import agent, send
from tests.store.places import SqlitePlace
from wakeline.core.instant import SECOND
from wakeline.core.log import Workspace
from wakeline.core.parcel import Failed, Refused
from wakeline.core.store import Store
from wakeline.core.waking import Why
from wakeline.flow.enrol import ChangePrincipal
from wakeline.flow.plan import Planned
from wakeline.service.subscriptions import view

DOWN = Failed("http_500", "500 Internal Server Error")
UNREACHABLE = Failed("address_refused", "", retryable=False)


async def test_a_failing_receiver_is_tried_four_times_with_the_same_bytes(sqlite: SqlitePlace) -> None:
    bell = await a_bell(sqlite)
    await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    seen = [planned.delivery]
    for pause in (1, 2, 4):
        await bell.settle(planned, DOWN)
        assert await bell.claim() == []
        sqlite.now += pause * SECOND
        [planned] = await bell.claim()
        seen.append(planned.delivery)
    await bell.settle(planned, DOWN)
    [delivery] = await bell.deliveries()
    assert (delivery.outcome, delivery.reason, delivery.attempts) == ("failed", "http_500", 4)
    assert {(one.event_id, one.body) for one in seen} == {(delivery.event_id, delivery.body)}
    assert [one.fence for one in seen] == [1, 2, 3, 4]


async def test_three_exhausted_deliveries_in_a_row_degrade_the_subscription_until_it_is_resumed(
    sqlite: SqlitePlace,
) -> None:
    bell = await a_bell(sqlite)
    row = await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    planned = (await bell.match())[0]
    for _ in range(3):
        assert (await stored(bell, row)).status == "active"
        planned = await exhaust(bell, sqlite, planned)
        sqlite.now += 31 * SECOND
        planned = next(iter(await bell.flush()), planned)
    degraded = await stored(bell, row)
    assert (degraded.status, degraded.failures) == ("degraded", 3)
    assert "http_500" in (degraded.status_reason or "")
    assert [wake.reason for wake in await bell.wakes(row)] == [Why.DEGRADED]
    sqlite.now += 3600 * SECOND
    assert await bell.flush() == []


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_what_failed_rings_again_as_the_same_event_until_its_route_is_degraded(sqlite: SqlitePlace) -> None:
    """A receiver that takes an event and answers too late gets it again and again, but never as another one."""
    bell = await a_bell(sqlite)
    row = await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    planned = (await bell.match())[0]
    rung = []
    while (await stored(bell, row)).status == "active":
        rung.append(planned.delivery)
        await exhaust(bell, sqlite, planned)
        sqlite.now += 31 * SECOND
        planned = next(iter(await bell.flush()), planned)
    assert len({one.delivery_id for one in rung}) == 3
    assert len({(one.event_id, one.body) for one in rung}) == 1


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_what_failed_keeps_its_id_whatever_held_it_meanwhile(store: Store, workspace: Workspace) -> None:
    bell = Bell(store, workspace, supervisor_seconds=0)
    row = await bell.subscribe("@bob", coalesce_window=0)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    bob = agent(bell.workspace, "@bob")
    await bell.store.submit(ChangePrincipal(bob, "@bob", dnd_until=await store.now() + 3600 * SECOND))
    assert (await bell.settle(planned, UNREACHABLE)).planned is None
    await bell.store.submit(ChangePrincipal(bob, "@bob", dnd_until=None))
    [again] = await bell.flush_these(row.subscription_id)
    assert again.delivery.delivery_id != planned.delivery.delivery_id
    assert (again.delivery.event_id, again.delivery.body) == (planned.delivery.event_id, planned.delivery.body)
    await bell.settle(again)
    assert [row.outcome for row in await bell.deliveries()] == ["delivered", "failed"]


async def test_what_failed_and_has_company_now_is_another_event(sqlite: SqlitePlace) -> None:
    bell = await a_bell(sqlite)
    await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    await bell.settle(planned, UNREACHABLE)
    sqlite.now += 31 * SECOND
    [digest] = await bell.flush()
    assert (body(digest)["eventType"], digest.delivery.events) == ("wake/digest", 2)
    assert digest.delivery.event_id != planned.delivery.event_id
    await bell.settle(digest, UNREACHABLE)
    sqlite.now += 31 * SECOND
    [again] = await bell.flush()
    assert again.delivery.body == digest.delivery.body


async def test_latency_is_an_average_over_what_arrived(sqlite: SqlitePlace) -> None:
    bell = await a_bell(sqlite)
    row = await bell.subscribe("@bob", coalesce_window=0)
    assert view(await stored(bell, row)).metrics.latency_average_seconds is None
    for seconds, result in ((2, None), (50, UNREACHABLE), (4, None)):
        await send(bell.store, agent(bell.workspace, "@ann"), "@bob", wake_policy="immediate")
        [planned] = await bell.match()
        sqlite.now += seconds * SECOND
        await bell.settle(planned, result)
    metrics = view(await stored(bell, row)).metrics
    assert (metrics.rings, metrics.latency_average_seconds, metrics.latency_most_seconds) == (3, 3, 4)


async def exhaust(bell: Bell, place: SqlitePlace, planned: Planned) -> Planned:
    for pause in (1, 2, 4):
        await bell.settle(planned, DOWN)
        place.now += pause * SECOND
        [planned] = await bell.claim()
    await bell.settle(planned, DOWN)
    return planned


async def test_a_refusal_degrades_at_once(store: Store, workspace: Workspace) -> None:
    bell = Bell(store, workspace)
    row = await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned, Refused(404, "http_404", "404 Not Found"))
    assert (await stored(bell, row)).status == "degraded"
    [delivery] = await bell.deliveries()
    assert (delivery.outcome, delivery.attempts) == ("failed", 1)


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [(0, 1), (90, 90), (86_400, 300)],
    ids=["no sooner than without it", "as long as it asks", "within bounds"],
)
async def test_a_receiver_says_when_it_wants_the_next_attempt(sqlite: SqlitePlace, asked: int, seconds: int) -> None:
    bell = await a_bell(sqlite)
    await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned, Failed("server_error", "HTTP 503", pause=timedelta(seconds=asked)))
    sqlite.now += seconds * SECOND - 1
    assert await bell.claim() == []
    sqlite.now += 1
    [again] = await bell.claim()
    assert again.delivery.attempts == 2
