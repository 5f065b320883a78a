from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.store.bells import Bell, body
from tests.store.builders import agent, bridge, new_id, send, unread
from wakeline import wire
from wakeline.core.log import Workspace
from wakeline.core.store import Store
from wakeline.core.subscription import Filters, Target, Trigger
from wakeline.core.waking import Why
from wakeline.flow.attend import Attention, Heartbeat
from wakeline.flow.tend import Leave, Tend
from wakeline.runtime.heart import pulse


@pytest.fixture
async def bell(store: Store, workspace: Workspace) -> Bell:
    """With a bridge on the host `h`."""
    await store.submit(Tend(bridge(workspace, "h"), "bridge-h1", "1", ("seat",), started=True))
    return Bell(store, workspace)


# -- sessions ---------------------------------------------------------------------------------------------------------

BRIDGE: dict[str, Any] = {"target": Target.BRIDGE, "url": None, "signing_key": None, "coalesce_window": 0}


async def beat(bell: Bell, presence: str, **said: Any) -> str:
    words = {"harness": "reference", "transport": "seat", "native_id": "n1", "host": "h", **said}
    request = msgspec.convert({**words, "presence": presence}, wire.HeartbeatSession)
    session = await bell.store.submit(Heartbeat(agent(bell.workspace, "@bob"), request, new_id(), Attention()))
    return session.session_id


@pytest.mark.guarantee("G-WAKE-DECISION")
async def test_a_session_that_is_busy_is_woken_when_it_is_idle(bell: Bell) -> None:
    row = await bell.subscribe("@bob", **BRIDGE)
    session_id = await beat(bell, "waitingOnApproval")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    await bell.match()
    assert [wake.reason for wake in await bell.wakes(row)] == [Why.APPROVAL]
    await beat(bell, "idle")
    await bell.match()
    [delivery] = await bell.deliveries()
    assert (delivery.session_id, delivery.target, delivery.lease_owner) == (session_id, "bridge-daemon", None)


async def test_a_session_has_one_wake_at_a_time(bell: Bell) -> None:
    first, second = [await bell.subscribe("@bob", **BRIDGE, filters=Filters(priority=p)) for p in ("high", "low")]
    await beat(bell, "idle")
    for priority in ("high", "low"):
        await send(bell.store, agent(bell.workspace, "@ann"), "@bob", priority=priority)
    await bell.match()
    assert len(await bell.deliveries()) == 1
    found = [*await bell.wakes(first), *await bell.wakes(second)]
    assert sorted((wake.state, wake.reason) for wake in found if wake.state != "ringing") == [("held", Why.OUTSTANDING)]


async def test_a_full_context_holds_until_there_is_room(bell: Bell) -> None:
    row = await bell.subscribe("@bob", **BRIDGE)
    await beat(bell, "idle", context_tokens=250_001)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    await bell.match()
    assert [wake.reason for wake in await bell.wakes(row)] == [Why.CONTEXT]
    await beat(bell, "idle", context_tokens=10)
    await bell.match()
    assert len(await bell.deliveries()) == 1


# -- heartbeat --------------------------------------------------------------------------------------------------------


async def pulsed(bell: Bell, *, bypass: bool = True) -> list[str]:
    return await pulse(bell.store, bell.workspace.workspace_id, timedelta(seconds=300), bypass=bypass)


async def test_the_watchdog_looks_after_who_has_mail_and_no_healthy_push_route(bell: Bell) -> None:
    await bell.subscribe("@bob")
    await bell.subscribe("@cat", target=Target.NONE, url=None, signing_key=None)
    for handle in ("@bob", "@cat"):
        await send(bell.store, agent(bell.workspace, "@ann"), handle)
    assert await pulsed(bell) == ["@cat"]
    assert await pulsed(bell) == []  # not again so soon


async def test_a_proven_session_is_a_healthy_route_only_while_its_host_has_a_bridge(bell: Bell) -> None:
    await bell.subscribe("@bob", **BRIDGE)
    await beat(bell, "idle")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    assert await pulsed(bell) == []
    await bell.store.submit(Leave(bridge(bell.workspace, "h"), "bridge-h1"))
    await bell.store.submit(Tend(bridge(bell.workspace, "elsewhere"), "bridge-e1", "1", ("seat",), started=True))
    assert await pulse(bell.store, bell.workspace.workspace_id, timedelta(0), bypass=True) == ["@bob"]


async def test_a_degraded_route_is_no_healthy_one_and_the_bypass_can_be_turned_off(bell: Bell) -> None:
    await bell.subscribe("@bob", status="degraded")
    await bell.subscribe("@cat")
    for handle in ("@bob", "@cat"):
        await send(bell.store, agent(bell.workspace, "@ann"), handle)
    assert await pulsed(bell, bypass=False) == ["@bob", "@cat"]


async def test_a_pulse_is_a_log_row_and_wakes_who_asked_for_pulses(bell: Bell) -> None:
    await bell.subscribe("@bob", trigger=Trigger.HEARTBEAT_PULSE)
    assert await pulsed(bell) == ["@bob"]
    [planned] = await bell.match()
    said = body(planned)
    assert (said["eventType"], said["payload"]["unread"]) == ("wake/heartbeat_pulse", 0)
    assert await unread(bell.store, agent(bell.workspace, "@bob")) == 0


# -- forgetting -------------------------------------------------------------------------------------------------------


async def test_settled_deliveries_are_forgotten_and_nothing_rings_again(bell: Bell) -> None:
    await bell.subscribe("@bob", coalesce_window=0)
    for _ in range(2):
        await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned)
    assert await bell.store.forget_wakes(2**60) == 1
    assert [row.outcome for row in await bell.deliveries()] == [None]
    assert await Bell(bell.store, bell.workspace).match() == []


async def test_the_log_is_pruned_past_a_matcher_that_has_nothing_to_look_at_and_no_further_otherwise(
    bell: Bell,
) -> None:
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    await bell.match()
    await bell.matcher.save()
    for _ in range(5):
        await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    assert await bell.store.prune(bell.workspace.workspace_id, before=None, keep=1) > 5
    await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    last = await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    await bell.store.prune(bell.workspace.workspace_id, before=None, keep=0)
    [planned] = await Bell(bell.store, bell.workspace).match()
    assert planned.delivery.log_id == last.log_id
