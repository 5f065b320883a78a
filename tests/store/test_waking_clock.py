"""The clock is set back by an hour while something waits: nothing that was to happen soon happens an hour later."""

from __future__ import annotations

import pytest

from tests.store.bells import Bell
from tests.store.bridges import Host
from tests.store.builders import agent, send
from tests.store.places import Place, SqlitePlace
from tests.store.wakers import Notes, until, waking
from wakeline.core.bridge_queries import WakesToPoke
from wakeline.core.delivery import Outcome
from wakeline.core.instant import SECOND
from wakeline.core.log import Workspace
from wakeline.core.observation import Injected
from wakeline.core.parcel import Accepted, Failed, mark_of
from wakeline.core.store import Store
from wakeline.core.subscription import Target
from wakeline.core.wake_queries import DeliverySteps
from wakeline.core.waking import WakeRules
from wakeline.flow.plan import Planned
from wakeline.flow.retime import Retime, latest

HOUR = 3600 * SECOND
DOWN = Failed("server_error", "HTTP 500")
GONE = Failed("address_refused", "no", retryable=False)

# What a clock that was an hour ahead would have written.
AHEAD = """
UPDATE deliveries SET next_attempt_at = next_attempt_at + 3600000000, lease_until = lease_until + 3600000000,
  created_at = created_at + 3600000000;
UPDATE wakes SET until = until + 3600000000, updated_at = updated_at + 3600000000, unsure_at = unsure_at + 3600000000,
  poke_at = poke_at + 3600000000;
UPDATE subscriptions SET rung_at = rung_at + 3600000000, first_queued_at = first_queued_at + 3600000000,
  flush_at = flush_at + 3600000000;
UPDATE buckets SET counted_at = counted_at + 3600000000;
"""


async def set_back(place: Place) -> None:
    """The database's own clock cannot be set, but what it wrote can be what it would have been."""
    if isinstance(place, SqlitePlace):
        place.now -= HOUR
        return
    connection = await place.connect()
    await connection.execute(AHEAD)
    await connection.close()


@pytest.fixture
def bell(store: Store, workspace: Workspace) -> Bell:
    return Bell(store, workspace)


async def ring(bell: Bell) -> Planned:
    await bell.subscribe("@bob", coalesce_window=0)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    return planned


@pytest.mark.guarantee("G-WAKE-CLOCK")
async def test_a_retry_does_not_wait_for_the_clock_nor_does_what_is_behind_it(place: Place, bell: Bell) -> None:
    planned = await ring(bell)
    await bell.settle(planned, DOWN)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    await bell.match()
    await set_back(place)
    notes = Notes()
    async with waking(bell.store, {Target.WEBHOOK: notes}):
        retried, behind = await notes.next(), await notes.next()
    assert (retried.delivery_id, retried.attempt) == (planned.delivery.delivery_id, 2)
    assert behind.delivery_id != retried.delivery_id
    steps = [step.step for step in await bell.store.read(DeliverySteps(planned.delivery.delivery_id))]
    assert "clock_set_back" in steps


@pytest.mark.guarantee("G-WAKE-CLOCK")
async def test_what_failed_does_not_wait_for_the_clock(place: Place, bell: Bell) -> None:
    planned = await ring(bell)
    await bell.settle(planned, GONE)
    await set_back(place)
    notes = Notes()
    async with waking(bell.store, {Target.WEBHOOK: notes}):
        assert (await notes.next()).subscription_id == planned.subscription.subscription_id


@pytest.mark.guarantee("G-WAKE-CLOCK")
async def test_a_digest_does_not_wait_for_the_clock(place: Place, bell: Bell) -> None:
    await bell.subscribe("@bob", coalesce_window=60)
    for _ in range(2):
        await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
        for planned in await bell.match():
            await bell.settle(planned)
    await set_back(place)
    notes = Notes()
    async with waking(bell.store, {Target.WEBHOOK: notes}):
        await notes.next()


async def test_who_is_at_work_keeps_the_lease_and_nobody_waits_for_it_for_long(place: Place, bell: Bell) -> None:
    planned = await ring(bell)
    await set_back(place)
    command = Retime(bell.workspace.workspace_id, (planned.delivery.delivery_id,), bell.rules)
    await bell.store.submit(command)
    [row] = await bell.deliveries()
    assert (row.lease_owner, row.fence, row.attempts) == ("local", planned.delivery.fence, 1)
    assert row.lease_until == row.next_attempt_at
    assert row.lease_until is not None
    assert row.lease_until <= await bell.store.now() + bell.rules.lease_seconds * SECOND
    assert not (await bell.settle(planned)).stale


async def test_a_time_that_is_not_too_far_ahead_is_left_alone(bell: Bell) -> None:
    planned = await ring(bell)
    await bell.store.submit(Retime(bell.workspace.workspace_id, (planned.delivery.delivery_id,), bell.rules))
    [row] = await bell.deliveries()
    assert row == planned.delivery


@pytest.mark.parametrize("rules", [WakeRules(), WakeRules(lease_seconds=900), WakeRules(outstanding_seconds=900)])
def test_no_wait_is_longer_than_the_longest(rules: WakeRules) -> None:
    assert latest(rules, 0) >= 300 * SECOND
    assert latest(rules, 0) >= max(rules.lease_seconds, rules.outstanding_seconds) * SECOND


@pytest.mark.guarantee("G-WAKE-CLOCK")
async def test_a_ring_that_no_bridge_has_is_planned_anew(store: Store, workspace: Workspace, place: Place) -> None:
    host = Host(store, workspace, place)
    await host.open()
    await host.mail()
    [before] = await host.bell.deliveries(outcome="open")
    await set_back(place)
    await host.beat("idle")
    async with waking(store):
        [after] = await until(lambda: _another(host, before.delivery_id))
    assert after.created_at <= await store.now()
    [row] = [row for row in await host.bell.deliveries() if row.delivery_id == before.delivery_id]
    assert row.outcome == Outcome.SKIPPED


async def _another(host: Host, delivery_id: str) -> list[object]:
    return [row for row in await host.bell.deliveries(outcome="open") if row.delivery_id != delivery_id]


async def test_a_ring_that_nobody_confirms_ends_in_its_time(store: Store, workspace: Workspace, place: Place) -> None:
    host = Host(store, workspace, place)
    await host.open()
    await host.mail()
    [ringing] = await host.claim()
    await host.settle(ringing, Accepted(None, "taken"))
    await set_back(place)
    await store.submit(Retime(workspace.workspace_id, (ringing.delivery.delivery_id,), host.rules))
    [row] = await host.bell.deliveries(outcome="open")
    assert row.next_attempt_at is not None
    assert row.next_attempt_at <= await store.now() + host.rules.outstanding_seconds * SECOND


@pytest.mark.guarantee("G-WAKE-CLOCK")
async def test_unread_mail_is_looked_at_again_in_its_time_and_not_at_once(
    store: Store, workspace: Workspace, place: Place
) -> None:
    host = Host(store, workspace, place)
    await host.open()
    await host.mail()
    [ringing] = await host.claim()
    await host.settle(ringing, Accepted(None, "taken"))
    await host.observe(Injected(ringing.session.session_id, (mark_of(ringing.delivery.event_id),)))
    await set_back(place)
    assert await host.poke() == 1
    assert (await host.claim(), await host.poke()) == ([], 0)
    now, wait = await store.now(), host.rules.repoke_seconds * SECOND
    assert len(await store.read(WakesToPoke(now + wait, now + wait, 100))) == 1
