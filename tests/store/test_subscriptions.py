from __future__ import annotations

import asyncio
from datetime import timedelta

import apsw
import pytest

from tests.store.builders import agent, human, log_of, send
from tests.store.places import Place, PostgresPlace, SqlitePlace
from tests.store.subscribing import URL, PutSession, session, subscribe
from wakeline.core.log import Workspace
from wakeline.core.store import Store
from wakeline.core.subscription import Filters, Subscription, Trigger, default_id
from wakeline.core.subscription_queries import EverySubscription, OneSubscription, SubscriptionsOf
from wakeline.core.wake_queries import DueSubscriptions
from wakeline.errors import NotFound
from wakeline.flow.amend import Change, Resume, RotateKey, Unsubscribe, Update
from wakeline.flow.subscribe import EnsureDefault, Route
from wakeline.store.postgres.store import PostgresStore

KEYS = "SELECT trigger, key, active FROM subscription_keys ORDER BY trigger, key"


async def keys(place: Place) -> list[tuple[str, str, int]]:
    if isinstance(place, SqlitePlace):
        return [(str(one), str(two), int(three)) for one, two, three in apsw.Connection(str(place.file)).execute(KEYS)]
    connection = await place.connect()
    try:
        return [tuple(row) for row in await connection.fetch(KEYS)]
    finally:
        await connection.close()


async def stored(store: Store, row: Subscription) -> Subscription:
    [found] = await store.read(OneSubscription(row.workspace_id, row.subscription_id))
    return found


async def test_a_subscription_is_stored_with_all_that_was_said(
    store: Store, workspace: Workspace, place: Place
) -> None:
    bob = agent(workspace, "@bob")
    await send(store, agent(workspace, "@ann"), "@bob")
    tip = (await log_of(store, workspace))[-1].log.log_id
    made = await store.submit(
        subscribe(
            bob,
            Route(target="a2a-webhook", url=URL, coalesce_window=60, wake_policy="next_turn", sealed_key="sealed"),
            sender_filter=("@cat", "@ann"),
            priority="high",
        )
    )
    row = await stored(store, made.subscription)
    assert row == made.subscription
    assert row.from_log_id == tip
    assert await keys(place) == [("SENT_TO_ME", "sender:@ann", 1), ("SENT_TO_ME", "sender:@cat", 1)]


@pytest.mark.guarantee("G-SUBSCRIBE-ONCE")
async def test_many_at_once_make_one_subscription(store: Store, workspace: Workspace) -> None:
    bob = agent(workspace, "@bob")
    answers = await asyncio.gather(*(store.submit(subscribe(bob)) for _ in range(20)))
    assert len({answer.subscription.subscription_id for answer in answers}) == 1
    assert sorted(answer.existed for answer in answers) == [False] + [True] * 19
    assert len(await store.read(SubscriptionsOf(workspace.workspace_id, "@bob", "", 100))) == 1


@pytest.mark.guarantee("G-SUBSCRIBE-ONCE")
async def test_several_nodes_at_once_make_one_subscription(postgres: PostgresPlace) -> None:
    nodes: list[PostgresStore] = [await postgres.open() for _ in range(3)]
    workspace = await nodes[0].add_workspace("default", "e1", "@human")
    owner = human(workspace)
    answers = await asyncio.gather(*(node.submit(subscribe(owner)) for node in nodes for _ in range(5)))
    assert len({answer.subscription.subscription_id for answer in answers}) == 1
    assert [answer.existed for answer in answers].count(False) == 1


async def test_changes_survive_a_restart(place: Place, store: Store, workspace: Workspace) -> None:
    bob = agent(workspace, "@bob")
    row = (await store.submit(subscribe(bob))).subscription
    change = Change(trigger=Trigger.TASK_STATE_CHANGED, filters=Filters(tagged_concepts=("x",)), coalesce_window=5)
    await store.submit(Update(bob, row.subscription_id, "@bob", change))
    await store.submit(RotateKey(bob, row.subscription_id, "new", timedelta(hours=24)))
    again = await stored(await place.open(), row)
    assert (again.trigger, again.filters, again.coalesce_window) == (
        "TASK_STATE_CHANGED", '{"taggedConcepts":["x"]}', 5
    )  # fmt: skip
    assert (again.signing_key, again.previous_key) == ("new", "sealed")
    assert await keys(place) == [("SENT_TO_ME", "any", 0), ("TASK_STATE_CHANGED", "tag:x", 1)]


async def test_what_was_removed_is_not_read_and_its_route_is_free(store: Store, workspace: Workspace) -> None:
    bob = agent(workspace, "@bob")
    first = (await store.submit(subscribe(bob))).subscription
    await store.submit(Unsubscribe(bob, first.subscription_id))
    assert await store.read(OneSubscription(workspace.workspace_id, first.subscription_id)) == []
    second = await store.submit(subscribe(bob))
    assert not second.existed
    assert await store.read(SubscriptionsOf(workspace.workspace_id, "@bob", "", 9)) == [second.subscription]
    await store.submit(Unsubscribe(bob, first.subscription_id))
    kinds = [entry.log.kind for entry in await log_of(store, workspace) if entry.log.kind.startswith("subscription")]
    assert kinds == ["subscription.created", "subscription.retired", "subscription.created"]


async def test_lists_are_read_page_by_page_in_order(store: Store, workspace: Workspace) -> None:
    for handle in ("@bob", "@ann"):
        for number in range(3):
            await store.submit(subscribe(agent(workspace, handle), tagged_concepts=(f"t{number}",)))
    found: list[Subscription] = []
    while page := await store.read(
        EverySubscription(
            workspace.workspace_id,
            found[-1].handle if found else "",
            found[-1].subscription_id if found else "",
            2,
        )
    ):
        found += page
    assert [row.handle for row in found] == ["@ann"] * 3 + ["@bob"] * 3
    assert len({row.subscription_id for row in found}) == 6
    own = await store.read(SubscriptionsOf(workspace.workspace_id, "@bob", found[3].subscription_id, 9))
    assert own == found[4:]


async def test_a_session_that_was_proven_to_wake_makes_the_bridge_the_best_route(
    store: Store, workspace: Workspace
) -> None:
    bob = agent(workspace, "@bob")
    await store.submit(PutSession(session(bob, levels='{"D4":"pass"}')))
    made = await store.submit(subscribe(bob, Route(has_mcp=True)))
    assert made.subscription.target == "bridge-daemon"


async def test_a_removed_default_stays_removed_after_a_restart(
    place: Place, store: Store, workspace: Workspace
) -> None:
    bob = agent(workspace, "@bob")
    default = await store.submit(EnsureDefault(bob, has_mcp=True))
    assert default is not None
    assert await stored(store, default) == default
    assert default.subscription_id == default_id(workspace.workspace_id, "@bob")
    await store.submit(Unsubscribe(bob, default.subscription_id))
    assert await (await place.open()).submit(EnsureDefault(bob, has_mcp=True)) is None


async def test_a_default_that_gets_a_route_is_due_in_the_same_commit(store: Store, workspace: Workspace) -> None:
    bob = agent(workspace, "@bob")
    await store.submit(EnsureDefault(bob, has_mcp=False))
    assert await store.read(DueSubscriptions(await store.now(), 10)) == []
    default = await store.submit(EnsureDefault(bob, has_mcp=True))
    assert default is not None
    [due] = await store.read(DueSubscriptions(await store.now(), 10))
    assert due.subscription_id == default.subscription_id


@pytest.mark.guarantee("G-SUBSCRIPTION-OWN")
async def test_nobody_reaches_into_another_workspace(store: Store, workspace: Workspace) -> None:
    row = (await store.submit(subscribe(agent(workspace, "@bob")))).subscription
    other = await store.add_workspace("other", "e2", "@human")
    assert await store.read(OneSubscription(other.workspace_id, row.subscription_id)) == []
    for command in (Unsubscribe(human(other), row.subscription_id), Resume(human(other), row.subscription_id)):
        with pytest.raises(NotFound):
            await store.submit(command)
    assert await stored(store, row) == row
