"""What waits although nobody will say when its wait is over: the start and every round look at it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tests.store.bells import URL, Bell, Plant
from tests.store.bridges import Host
from tests.store.builders import agent, send
from tests.store.places import Place
from tests.store.wakers import Notes, until, waking
from wakeline.core.log import Workspace
from wakeline.core.store import Store
from wakeline.core.subscription import Subscription, Target
from wakeline.core.wake import WakeState
from wakeline.core.wake_queries import Due
from wakeline.core.waking import WakeRules, Why
from wakeline.runtime import supervisor
from wakeline.runtime.supervisor import Supervisor

NO_ROUTE = {"target": Target.NONE, "url": None, "signing_key": None}
WEBHOOK = {"target": Target.WEBHOOK, "url": URL, "signing_key": "sealed", "flush_at": None}


@pytest.fixture
def bell(store: Store, workspace: Workspace) -> Bell:
    return Bell(store, workspace)


@pytest.fixture
async def host(store: Store, workspace: Workspace, place: Place) -> Host:
    return Host(store, workspace, place)


async def held(bell: Bell, row: Subscription) -> Why | None:
    """Why, if all that it has to ring is held."""
    reasons = {wake.reason if wake.state == WakeState.HELD else None for wake in await bell.wakes(row)}
    return Why(reasons.pop() or "") if len(reasons) == 1 and None not in reasons else None


async def hold_for_a_route(bell: Bell) -> Subscription:
    row = await bell.subscribe("@bob", **NO_ROUTE)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    await bell.match()
    assert await held(bell, row) is Why.NO_ROUTE
    return row


async def get_a_route(bell: Bell, row: Subscription) -> None:
    """And whoever did this was killed before they could say so."""
    after = msgspec.structs.replace(row, **WEBHOOK)
    await bell.store.submit(Plant(bell.workspace.workspace_id, after))


@pytest.mark.guarantee("G-WAKE-AGAIN")
async def test_a_start_looks_at_holds_whose_reason_ended_without_a_word(bell: Bell) -> None:
    row = await hold_for_a_route(bell)
    await get_a_route(bell, row)
    notes = Notes()
    async with waking(bell.store, {Target.WEBHOOK: notes}):
        assert (await notes.next()).subscription_id == row.subscription_id


@pytest.mark.guarantee("G-WAKE-AGAIN")
async def test_the_supervisor_looks_at_holds_whose_reason_ended_without_a_word(bell: Bell) -> None:
    notes = Notes()
    async with waking(bell.store, {Target.WEBHOOK: notes}, supervisor_seconds=0):
        row = await bell.subscribe("@bob", **NO_ROUTE)
        await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
        await until(lambda: held(bell, row))
        await get_a_route(bell, row)
        assert (await notes.next()).subscription_id == row.subscription_id


@pytest.mark.guarantee("G-WAKE-AGAIN")
async def test_a_start_with_more_room_for_context_rings(host: Host) -> None:
    await host.open()
    await host.beat("idle", context_tokens=200_000)
    full = Bell(host.store, host.workspace, context_gate_tokens=100_000)
    await send(host.store, agent(host.workspace, "@ann"), "@bob")
    await full.match()
    assert await held(full, host.row) is Why.CONTEXT
    async with waking(host.store):
        await until(lambda: full.deliveries(outcome="open"))


@pytest.mark.guarantee("G-WAKE-AGAIN")
async def test_a_start_rings_what_a_bridge_that_came_was_not_told_of(host: Host) -> None:
    host.row = await host.bell.subscribe("@bob", target=Target.BRIDGE, url=None, signing_key=None)
    await host.beat("idle")
    await host.mail()
    assert await held(host.bell, host.row) is Why.NO_BRIDGE
    await host.tend()
    async with waking(host.store):
        await until(lambda: host.bell.deliveries(outcome="open"))


async def test_looking_at_what_must_still_wait_changes_nothing(bell: Bell) -> None:
    rows = [await hold_for_a_route(bell)]
    rows.append(await bell.subscribe("@cat", target=Target.MCP, url=None, signing_key=None))
    await send(bell.store, agent(bell.workspace, "@ann"), "@cat")
    await bell.match()
    before = [await bell.wakes(row) for row in rows]
    looked = Supervisor(bell.store, bell.rules, lambda due: _flush(bell, due))
    await looked.look()
    assert [await bell.wakes(row) for row in rows] == before


async def _flush(bell: Bell, due: Sequence[Due]) -> None:
    if due:
        await bell.flush_these(*(row.subscription_id for row in due))


@pytest.mark.guarantee("G-WAKE-AGAIN")
async def test_nobody_is_passed_over_however_many_wait(bell: Bell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "AT_ONCE", 2)
    monkeypatch.setattr(supervisor, "PAGES", 1)
    rows = [await bell.subscribe("@bob", **NO_ROUTE) for _ in range(5)]
    for _ in range(3):  # one that holds more than others takes no more turns
        await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    await bell.match()
    looks: list[list[str]] = []

    async def flush(due: Sequence[Due]) -> None:
        looks.append([row.subscription_id for row in due])

    everyone = sorted(row.subscription_id for row in rows)
    looking = Supervisor(bell.store, WakeRules(), flush)
    await looking.look()
    assert looks == [everyone[:2], everyone[2:4], everyone[4:]]
    for _ in range(4):
        await looking.look()
    assert looks[3:] == [everyone[:2], everyone[2:4], everyone[4:], everyone[:2]]


async def test_what_somebody_looks_at_soon_is_left_to_them(bell: Bell) -> None:
    ringing = await bell.subscribe("@bob", coalesce_window=0)
    for _ in range(2):
        await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
        await bell.match()  # the first is under way, the second waits behind it
    timed = await bell.subscribe("@cat", coalesce_window=20)
    for _ in range(2):
        await send(bell.store, agent(bell.workspace, "@ann"), "@cat")
        for planned in await bell.match():
            await bell.settle(planned)
    assert ["waiting" in [wake.state for wake in await bell.wakes(row)] for row in (ringing, timed)] == [True, True]
    looks: list[Due] = []

    async def flush(due: Sequence[Due]) -> None:
        looks.extend(due)

    await Supervisor(bell.store, WakeRules(supervisor_seconds=30), flush).look()
    assert looks == []
    await Supervisor(bell.store, WakeRules(supervisor_seconds=1), flush).look()
    assert [row.subscription_id for row in looks] == [timed.subscription_id]
