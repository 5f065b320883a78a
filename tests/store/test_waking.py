from __future__ import annotations

import pytest

from tests.store.bells import Bell, a_bell, body, stored
from tests.store.builders import agent, human, log_of, new_id, send
from tests.store.places import Place, SqlitePlace
from wakeline.core.cursor import Cursor
from wakeline.core.instant import SECOND
from wakeline.core.log import Workspace
from wakeline.core.parcel import Absent, Failed, Refused
from wakeline.core.store import Store
from wakeline.core.subscription import Filters, Subscription, Target, Trigger
from wakeline.core.thread import Status
from wakeline.core.wake_queries import CursorFor
from wakeline.core.waking import Why
from wakeline.errors import InvalidArgument, NotFound
from wakeline.flow.ack import AckMessages
from wakeline.flow.amend import Change, Resume, Unsubscribe, Update
from wakeline.flow.convene import ChangeStatus
from wakeline.flow.evidence import STREAM, consumer_of
from wakeline.flow.permit import ChangeGrant
from wakeline.flow.plan import Planned
from wakeline.flow.replay import Retry
from wakeline.flow.rewind import ResetCursor

DOWN = Failed("http_500", "500 Internal Server Error")


@pytest.fixture
def bell(store: Store, workspace: Workspace) -> Bell:
    return Bell(store, workspace)


# -- match ------------------------------------------------------------------------------------------------------------


async def test_a_message_wakes_its_receiver_with_one_event_in_the_agreed_shape(bell: Bell) -> None:
    row = await bell.subscribe("@bob")
    sent = await send(bell.store, agent(bell.workspace, "@ann"), "@bob", subject="Look", tags=["review"])
    [planned] = await bell.match()
    said = body(planned)
    assert list(said) == [
        "schemaVersion", "eventType", "eventId", "logId", "agentIdentity", "subscriptionId", "payload", "emittedAt",
    ]  # fmt: skip
    assert (said["schemaVersion"], said["eventType"], said["logId"]) == ("1.0", "wake/sent_to_me", sent.log_id)
    assert (said["agentIdentity"], said["subscriptionId"]) == ("@bob", row.subscription_id)
    assert said["payload"] == {
        "messageId": sent.message_id, "from": "@ann", "subject": "Look", "priority": "normal",
        "taggedConcepts": ["review"], "isReplyTo": None, "isBroadcast": False,
    }  # fmt: skip


FOUND = {
    "anything": (Filters(), True),
    "its sender": (Filters(sender_filter=("@ann",)), True),
    "another sender": (Filters(sender_filter=("@cat",)), False),
    "one of its tags": (Filters(tagged_concepts=("x", "review")), True),
    "another tag": (Filters(tagged_concepts=("x",)), False),
    "its priority": (Filters(priority="high"), True),
    "another priority": (Filters(priority="low"), False),
    "all at once": (Filters(priority="high", sender_filter=("@ann",), tagged_concepts=("review",)), True),
    "all but one": (Filters(priority="high", sender_filter=("@ann",), tagged_concepts=("x",)), False),
    "an answer to something": (Filters(in_reply_to_filter=("0" * 26,)), False),
}


@pytest.mark.parametrize(("filters", "found"), FOUND.values(), ids=FOUND.keys())
async def test_a_subscription_finds_what_its_filters_say(bell: Bell, filters: Filters, *, found: bool) -> None:
    await bell.subscribe("@bob", filters=filters)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob", tags=["review"], priority="high")
    assert bool(await bell.match()) is found


async def test_a_reply_is_found_by_the_message_and_by_the_thread_that_it_answers(bell: Bell) -> None:
    first = await send(bell.store, agent(bell.workspace, "@bob"), "@ann")
    rows = [
        await bell.subscribe("@bob", filters=Filters(in_reply_to_filter=(one,)))
        for one in (first.message_id, first.thread_id)
    ]
    await send(bell.store, agent(bell.workspace, "@ann"), "", in_reply_to=first.message_id)
    woken = {planned.subscription.subscription_id for planned in await bell.match()}
    assert woken == {row.subscription_id for row in rows}


@pytest.mark.guarantee("G-WAKE-DECISION")
async def test_nobody_is_woken_by_their_own_message(bell: Bell) -> None:
    await bell.subscribe("@ann")
    await send(bell.store, agent(bell.workspace, "@ann"), "@ann")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    assert await bell.match() == []


async def test_only_what_came_after_the_subscription_is_matched(bell: Bell) -> None:
    old = await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    await bell.subscribe("@bob", from_log_id=old.log_id)
    assert await bell.match() == []


async def test_a_broadcast_says_that_it_is_one_and_waits_for_the_next_turn(bell: Bell) -> None:
    row = await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "everyone")
    assert await bell.match() == []
    assert (await stored(bell, row)).events == 1


async def test_a_grant_wakes_who_got_it(bell: Bell) -> None:
    await bell.subscribe("@bob", trigger=Trigger.PERMISSION_GRANTED)
    await bell.store.submit(ChangeGrant(human(bell.workspace), "CAN_REPLY_TO", "@bob", "@ann", granted=True))
    [planned] = await bell.match()
    assert planned.delivery.event_type == "wake/permission_granted"
    payload = body(planned)["payload"]
    assert (payload["scope"], payload["grantedBy"]) == ("CAN_REPLY_TO", "@ann")


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_two_nodes_that_match_the_same_stretch_wake_once(place: Place, bell: Bell) -> None:
    await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    other = Bell(bell.store, bell.workspace, node="other")
    await other.matcher._start(bell.workspace.workspace_id)  # noqa: SLF001 - both have read the same cursor
    first, second = await bell.match(), await other.match()
    assert (len(first), len(second), len(await bell.deliveries())) == (1, 0, 1)


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_a_restart_matches_what_was_left_and_nothing_twice(store: Store, workspace: Workspace) -> None:
    bell = Bell(store, workspace, at_once=False)
    await bell.subscribe("@bob", coalesce_window=0)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [first] = await bell.match()
    await bell.settle(first)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [second] = await Bell(bell.store, bell.workspace).match()
    assert second.delivery.log_id > first.delivery.log_id


# -- coalesce ---------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-WAKE-FLOOD")
async def test_a_flood_makes_one_wake_and_one_digest(sqlite: SqlitePlace) -> None:
    bell = await a_bell(sqlite)
    row = await bell.subscribe("@bob")
    sender = agent(bell.workspace, "@ann")
    await send(bell.store, sender, "@bob")
    [first] = await bell.match()
    for n in range(50):
        await send(bell.store, sender, "@bob", subject=f"n {n}")
        assert await bell.match() == []
    assert (await bell.settle(first)).planned is None  # inside the window
    sqlite.now += 29 * SECOND
    assert await bell.flush() == []
    sqlite.now += SECOND
    [digest] = await bell.flush()
    said = body(digest)
    assert (said["eventType"], said["payload"]["totalEvents"]) == ("wake/digest", 50)
    assert said["payload"]["breakdown"]["sent_to_me"]["latest"]["subject"] == "n 49"
    assert said["payload"]["windowMs"] == 30_000
    assert (
        '[WAKE] 50 events for @bob: 50 new messages\n\nBreakdown:\n- 50 new messages (latest: "n 49" from @ann)'
        in (said["payload"]["text"])
    )
    await bell.settle(digest)
    assert len(await bell.deliveries()) == 2
    after = await stored(bell, row)
    assert (after.events, after.rings, after.coalesced, after.flush_at) == (51, 2, 49, None)


async def test_after_a_quiet_window_the_next_event_rings_at_once(sqlite: SqlitePlace) -> None:
    bell = await a_bell(sqlite)
    await bell.subscribe("@bob", coalesce_window=10)
    for _ in range(3):
        await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
        [planned] = await bell.match()
        await bell.settle(planned)
        sqlite.now += 10 * SECOND


async def test_a_window_of_nothing_rings_every_event_by_itself_in_order(bell: Bell) -> None:
    await bell.subscribe("@bob", coalesce_window=0)
    sent = [await send(bell.store, agent(bell.workspace, "@ann"), "@bob") for _ in range(3)]
    rung = []
    planned: Planned | None = (await bell.match())[0]
    while planned is not None:
        rung.append(planned.delivery.log_id)
        planned = (await bell.settle(planned)).planned
    assert rung == [message.log_id for message in sent]


async def test_what_was_read_meanwhile_is_not_rung(sqlite: SqlitePlace) -> None:
    bell = await a_bell(sqlite)
    row = await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [first] = await bell.match()
    await bell.settle(first)
    read = await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    await bell.match()
    await bell.store.submit(AckMessages(agent(bell.workspace, "@bob"), (read.message_id,)))
    sqlite.now += 30 * SECOND
    assert await bell.flush() == []
    assert await bell.wakes(row) == []  # nothing is left to plan


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_an_event_that_arrives_while_its_queue_is_flushed_rings_later(bell: Bell) -> None:
    row = await bell.subscribe("@bob", coalesce_window=0)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [first] = await bell.match()
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    assert await bell.match() == []
    [waiting] = await bell.wakes(row)
    assert waiting.state == "waiting"
    assert (await bell.settle(first)).planned is not None


# -- deliver ----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-WAKE-FENCE")
async def test_an_expired_lease_is_claimed_again_and_its_former_holder_changes_nothing(sqlite: SqlitePlace) -> None:
    bell = await a_bell(sqlite)
    await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [lost] = await bell.match()
    sqlite.now += 31 * SECOND
    [taken] = await bell.claim()
    assert taken.delivery.fence == lost.delivery.fence + 1
    assert (await bell.settle(lost)).stale
    [delivery] = await bell.deliveries()
    assert delivery.outcome is None
    assert not (await bell.settle(taken)).stale
    assert (await bell.settle(taken)).stale


async def test_a_node_that_comes_back_takes_up_what_it_was_carrying(bell: Bell) -> None:
    await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    await bell.match()
    assert await bell.claim() == []
    [again] = await bell.claim(restarted=True)
    assert again.delivery.attempts == 2


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_two_nodes_claim_a_delivery_once(sqlite: SqlitePlace) -> None:
    bell = await a_bell(sqlite)
    await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned, DOWN)
    sqlite.now += SECOND
    other = Bell(bell.store, bell.workspace, node="other")
    assert [len(await bell.claim()), len(await other.claim())] == [1, 0]


async def test_a_retry_of_what_was_read_meanwhile_is_skipped(sqlite: SqlitePlace) -> None:
    bell = await a_bell(sqlite)
    await bell.subscribe("@bob")
    sent = await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned, DOWN)
    await bell.store.submit(AckMessages(agent(bell.workspace, "@bob"), (sent.message_id,)))
    sqlite.now += SECOND
    assert await bell.claim() == []
    [delivery] = await bell.deliveries()
    assert (delivery.outcome, delivery.reason) == ("skipped", "already_read")


async def test_what_failed_can_be_sent_again_byte_by_byte(bell: Bell) -> None:
    await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned, Failed("address_refused", "", retryable=False))
    again = await bell.store.submit(Retry(human(bell.workspace), planned.delivery.delivery_id, bell.stamp()))
    assert (again.body, again.event_id) == (planned.delivery.body, planned.delivery.event_id)
    [claimed] = await bell.claim()
    await bell.settle(claimed)
    assert [row.outcome for row in await bell.deliveries()] == ["delivered", "failed"]
    assert await bell.flush() == []  # its wake rang with it


async def test_a_receiver_that_is_not_connected_gets_it_when_it_is(bell: Bell) -> None:
    row = await bell.subscribe("@bob", target=Target.MCP, url=None, signing_key=None)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    assert await bell.match() == []
    assert [wake.reason for wake in await bell.wakes(row)] == [Why.NO_CONNECTION]
    bell.here = frozenset({"@bob"})
    [planned] = await bell.flush_these(row.subscription_id)
    bell.here = frozenset()
    await bell.settle(planned, Absent())  # it was gone again
    assert [wake.reason for wake in await bell.wakes(row)] == [Why.NO_CONNECTION]


@pytest.mark.guarantee("G-WAKE-DECISION")
async def test_a_budget_that_is_used_up_holds_until_it_refills(sqlite: SqlitePlace) -> None:
    bell = await a_bell(sqlite, wake_budget_per_hour=2)
    row = await bell.subscribe("@bob", coalesce_window=0)
    for _ in range(3):
        await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    planned = (await bell.match())[0]
    second = (await bell.settle(planned)).planned
    assert second is not None
    assert (await bell.settle(second)).planned is None
    [held] = await bell.wakes(row)
    assert (held.reason, held.until) == (Why.BUDGET, sqlite.now + 1800 * SECOND)
    sqlite.now += 1800 * SECOND
    assert len(await bell.flush()) == 1


@pytest.mark.guarantee("G-WAKE-FENCE")
async def test_what_a_removed_subscription_still_had_is_dropped_and_fenced_off(bell: Bell) -> None:
    row = await bell.subscribe("@bob", coalesce_window=0)
    for _ in range(2):
        await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.store.submit(Unsubscribe(agent(bell.workspace, "@bob"), row.subscription_id))
    assert (await bell.settle(planned)).stale
    [delivery] = await bell.deliveries()
    assert (delivery.outcome, delivery.reason) == ("skipped", "unsubscribed")
    assert await bell.wakes(row) == []
    assert await bell.flush() == []


async def test_resume_brings_out_what_a_degraded_route_held(bell: Bell) -> None:
    row = await bell.subscribe("@bob", coalesce_window=0)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned, Refused(400, "http_400", "400"))
    assert await bell.flush() == []
    await bell.store.submit(Resume(agent(bell.workspace, "@bob"), row.subscription_id))
    [again] = await bell.flush()
    assert again.delivery.log_id == planned.delivery.log_id
    assert again.delivery.event_id != planned.delivery.event_id


async def test_a_new_url_is_used_by_the_next_attempt_of_the_same_bytes(sqlite: SqlitePlace) -> None:
    bell = await a_bell(sqlite)
    row = await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned, DOWN)
    change = Change(url="https://elsewhere.example/")
    await bell.store.submit(Update(agent(bell.workspace, "@bob"), row.subscription_id, "@bob", change))
    sqlite.now += SECOND
    [again] = await bell.claim()
    assert again.subscription.url == "https://elsewhere.example/"
    assert again.delivery.body == planned.delivery.body


async def test_a_route_that_is_degraded_stays_so_until_it_is_resumed(bell: Bell) -> None:
    row = await bell.subscribe("@bob", status="degraded", status_reason="x")
    change = Change(url="https://elsewhere.example/")
    await bell.store.submit(Update(agent(bell.workspace, "@bob"), row.subscription_id, "@bob", change))
    assert (await stored(bell, row)).status == "degraded"


async def test_a_blocked_thread_holds_its_wakes_until_it_is_active_again(bell: Bell) -> None:
    row = await bell.subscribe("@bob", coalesce_window=0)
    opened = await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned)
    await set_status(bell, opened.thread_id, Status.BLOCKED)
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    assert await bell.match() == []
    assert [wake.reason for wake in await bell.wakes(row)] == [Why.THREAD_BLOCKED]
    await set_status(bell, opened.thread_id, Status.ACTIVE)
    assert len(await bell.match()) == 1


async def set_status(bell: Bell, thread_id: str, status: Status) -> None:
    caller = human(bell.workspace)
    await bell.store.submit(ChangeStatus(caller, thread_id, new_id(), status, "because", None, override=True))


# -- cursors ----------------------------------------------------------------------------------------------------------


async def cursor_of(bell: Bell, row: Subscription) -> Cursor:
    [found] = await bell.store.read(
        CursorFor(bell.workspace.workspace_id, consumer_of(row.subscription_id), STREAM, "")
    )
    return found


async def test_a_cursor_moves_with_its_delivery_and_keeps_why_it_does_not(bell: Bell) -> None:
    row = await bell.subscribe("@bob", coalesce_window=0)
    for _ in range(2):
        await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    following = (await bell.settle(planned)).planned
    assert following is not None
    cursor = await cursor_of(bell, row)
    assert (cursor.last_sequence, cursor.last_delivery_id) == (planned.delivery.log_id, planned.delivery.delivery_id)
    await bell.settle(following, Failed("address_refused", "x" * 5000, retryable=False))
    stalled = await cursor_of(bell, row)
    assert stalled.last_sequence == cursor.last_sequence
    assert (stalled.last_error or "").startswith("address_refused")
    assert len(stalled.last_error or "") <= 2048
    counted = await stored(bell, row)
    assert (counted.rings, counted.confirmed) == (2, 1)


@pytest.mark.guarantee("G-CURSOR")
async def test_a_cursor_is_put_back_only_with_a_reason_that_the_log_keeps(bell: Bell) -> None:
    row = await bell.subscribe("@bob")
    await send(bell.store, agent(bell.workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned)
    place = (bell.workspace.workspace_id, consumer_of(row.subscription_id), STREAM, "")
    with pytest.raises(InvalidArgument):
        await bell.store.submit(ResetCursor(*place, 0, " "))
    with pytest.raises(NotFound):
        await bell.store.submit(ResetCursor(*place, planned.delivery.log_id + 1, "forward"))
    await bell.store.submit(ResetCursor(*place, 0, "restored from a copy"))
    assert (await cursor_of(bell, row)).last_sequence == 0
    last = (await log_of(bell.store, bell.workspace))[-1].log
    assert (last.kind, "restored from a copy" in (last.data or "")) == ("cursor.reset", True)
