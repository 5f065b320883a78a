"""A subscription gets another target while something is under way by the one that it had."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.store.bells import Bell, stored
from tests.store.builders import agent, send
from wakeline.core.event import content_of
from wakeline.core.log import Workspace
from wakeline.core.parcel import Failed, Refused
from wakeline.core.store import Store
from wakeline.core.subscription import Subscription, Target
from wakeline.flow.amend import Change, Resume, Update
from wakeline.flow.replay import Resync

DOWN = Failed("server_error", "HTTP 500")


@pytest.fixture
def bell(store: Store, workspace: Workspace) -> Bell:
    return Bell(store, workspace)


async def reroute(bell: Bell, row: Subscription, target: Target = Target.MCP) -> Subscription:
    change = Change(target=target)
    await bell.store.submit(Update(agent(bell.workspace, "@bob"), row.subscription_id, "@bob", change))
    bell.here = frozenset({"@bob"})
    return await stored(bell, row)


async def test_a_retry_of_a_route_that_was_changed_is_given_to_the_new_one(bell: Bell) -> None:
    row = await bell.subscribe("@bob", coalesce_window=0, failures=2)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned, Failed("server_error", "HTTP 503", pause=timedelta(minutes=5)))
    await reroute(bell, row)
    assert await bell.claim() == []  # at once, and not when its receiver wanted to be asked again
    [before] = await bell.deliveries()
    assert (before.outcome, before.reason) == ("skipped", "route_changed")
    [after] = await bell.flush()
    assert (after.delivery.target, after.delivery.log_id) == (Target.MCP, planned.delivery.log_id)
    now = await stored(bell, row)
    assert (now.status, now.failures) == ("active", 2)
    await bell.settle(after)
    assert [wake.state for wake in await bell.wakes(row)] == []


@pytest.mark.parametrize("result", [DOWN, Failed("no_key", "", retryable=False), Refused(400, "rejected", "400")])
async def test_what_comes_of_a_route_that_was_changed_meanwhile_says_nothing_of_the_new_one(
    bell: Bell, result: Failed | Refused
) -> None:
    row = await bell.subscribe("@bob", coalesce_window=0, failures=2)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await reroute(bell, row)
    assert await bell.claim() == []  # it is being sent
    after = (await bell.settle(planned, result)).planned
    assert after is not None
    assert (after.delivery.target, after.delivery.log_id) == (Target.MCP, planned.delivery.log_id)
    now = await stored(bell, row)
    assert (now.status, now.failures) == ("active", 2)


async def test_what_the_route_that_was_has_taken_does_not_ring_again(bell: Bell) -> None:
    row = await bell.subscribe("@bob", coalesce_window=0)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await reroute(bell, row)
    assert (await bell.settle(planned)).planned is None
    assert await bell.flush() == []


async def test_a_replay_behind_a_refusal_says_nothing_of_the_new_route(bell: Bell) -> None:
    row = await bell.subscribe("@bob", coalesce_window=0)
    held = await bell.subscribe("@bob", target=Target.NONE, url=None, signing_key=None)
    bob = agent(bell.workspace, "@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    content = content_of(await bell.wakes(held))
    replay = await bell.store.submit(Resync(bob, row.subscription_id, content, bell.stamp()))
    await bell.settle(planned, Refused(400, "rejected", "400"))
    await reroute(bell, row)
    assert await bell.claim() == []
    [skipped] = [one for one in await bell.deliveries() if one.delivery_id == replay]
    assert (skipped.outcome, skipped.reason) == ("skipped", "route_changed")
    assert (await stored(bell, row)).status == "degraded"
    assert await bell.flush() == []
    await bell.store.submit(Resume(bob, row.subscription_id))
    assert await bell.flush() == []
    [wake] = await bell.wakes(row)
    assert (wake.log_id, wake.reason) == (planned.delivery.log_id, "delivery_failed")
    assert (await stored(bell, row)).flush_at == wake.until
