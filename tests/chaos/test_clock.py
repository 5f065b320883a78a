"""The clock is set back, and forward: order, read state and rate limits do not depend on it behaving."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.store.bells import Bell
from tests.store.builders import agent, inbox, log_of, open_workspace, send, unread
from tests.store.places import SqlitePlace
from tests.store.wakers import Notes, until, waking
from wakeline.core import guardrail
from wakeline.core.delivery import Delivery
from wakeline.core.guardrail import Guardrails
from wakeline.core.instant import SECOND
from wakeline.core.parcel import Failed
from wakeline.core.queries import MessageFor
from wakeline.core.records import Bucket
from wakeline.core.subscription import Target
from wakeline.errors import RateLimited
from wakeline.flow.ack import AckMessages, MarkSeen

HOUR = 3600 * SECOND
YEAR = 365 * 24 * HOUR
STEPS = (0, -HOUR, SECOND, -YEAR, 2 * YEAR, -YEAR, -1)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[SqlitePlace]:
    place = SqlitePlace(tmp_path)
    yield place
    await place.close()


@pytest.mark.guarantee("G-LOG-ORDER")
async def test_the_log_keeps_its_order_when_the_clock_is_set_back(place: SqlitePlace) -> None:
    store = await place.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    sent = []
    for step in STEPS:
        place.now += step
        sent.append(await send(store, ann, "@bob"))
    assert [one.seq for one in sent] == list(range(1, len(STEPS) + 1))
    log = await log_of(store, workspace)
    assert [entry.log.log_id for entry in log] == list(range(1, len(log) + 1))
    posted = [entry.log.subject for entry in log if entry.log.kind == "message.posted"]
    assert posted == [one.message_id for one in sent]
    assert [one.message.message_id for one in await inbox(store, bob)] == posted


@pytest.mark.guarantee("G-READ-FORWARD")
async def test_what_was_seen_and_read_stays_so_when_the_clock_is_set_back(place: SqlitePlace) -> None:
    store = await place.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    bob = agent(workspace, "@bob")
    sent = await send(store, agent(workspace, "@ann"), "@bob")
    before = None
    for step in STEPS:
        place.now += step
        await store.submit(MarkSeen(bob, (sent.message_id,)))
        await store.submit(AckMessages(bob, (sent.message_id,)))
        [found] = await store.read(MessageFor(workspace.workspace_id, sent.message_id, "@bob", False))
        assert found.receipt is not None
        assert before in (None, found.receipt)
        before = found.receipt
        assert await unread(store, bob) == len(await inbox(store, bob)) == 0


async def test_an_expired_message_stays_away_when_the_clock_is_set_back(place: SqlitePlace) -> None:
    store = await place.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    bob = agent(workspace, "@bob")
    await send(store, agent(workspace, "@ann"), "@bob", expires_at=place.now + HOUR)
    place.now += 2 * HOUR
    assert await store.lapse_expired() == 1
    for step in STEPS:
        place.now += step
        assert await unread(store, bob) == len(await inbox(store, bob)) == 0


async def test_a_young_row_is_not_pruned_because_an_older_one_follows_it(place: SqlitePlace) -> None:
    store = await place.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    ann = agent(workspace, "@ann")
    young = await send(store, ann, "@bob")
    place.now -= YEAR
    await send(store, ann, "@bob")
    await store.prune(workspace.workspace_id, before=place.now + YEAR - HOUR, keep=None)
    assert young.log_id in [entry.log.log_id for entry in await log_of(store, workspace)]


async def _waiting(bell: Bell) -> list[Delivery]:
    """For another attempt."""
    return [row for row in await bell.deliveries(outcome="open") if row.lease_owner is None]


@pytest.mark.guarantee("G-WAKE-CLOCK")
async def test_every_message_wakes_whatever_the_clock_does(place: SqlitePlace) -> None:
    """The first attempt of each fails, so that a retry is under way at every step."""
    store = await place.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    bell = Bell(store, workspace, at_once=False)
    await bell.subscribe("@bob", coalesce_window=0)
    notes = Notes(Failed("server_error", "HTTP 500"))
    async with waking(store, {Target.WEBHOOK: notes}, supervisor_seconds=0, wake_budget_per_hour=1000):
        for step in STEPS:
            await send(store, agent(workspace, "@ann"), "@bob")
            first = await notes.next()
            await until(lambda: _waiting(bell))
            place.now += step
            place.now += 2 * SECOND  # and it goes on
            again = await notes.next()
            assert (again.delivery_id, again.body, again.attempt) == (first.delivery_id, first.body, 2)


RAILS = Guardrails(rate_per_second=10, rate_burst=5)


def _take(bucket: Bucket | None, now: int) -> Bucket:
    return guardrail.take(bucket, 1, "@ann", RAILS, now)


@pytest.mark.parametrize("ahead", [0, 1, SECOND, HOUR, 10 * YEAR])
def test_a_sender_is_never_locked_out_by_a_clock_that_was_ahead(ahead: int) -> None:
    now = 2_000 * YEAR
    bucket = None
    for _ in range(RAILS.rate_burst):
        bucket = _take(bucket, now + ahead)
        assert bucket.level >= 0
    with pytest.raises(RateLimited):
        _take(bucket, now + ahead)
    # Two seconds after the clock was put right, twenty messages' worth of time has passed whatever it said before.
    for _ in range(RAILS.rate_burst):
        bucket = _take(bucket, now + 2 * SECOND)
        assert bucket.level >= 0
