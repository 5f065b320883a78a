"""What the writer remembers of subscriptions is what the database would have told the planner."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.store.bells import Bell, Plant, subscription
from tests.store.builders import agent, human, open_workspace, post, send
from tests.store.places import SqlitePlace
from tests.store.test_batches import in_one_batch
from wakeline.core.instant import SECOND
from wakeline.core.log import Workspace
from wakeline.core.parcel import Failed
from wakeline.core.picture import Needs, Picture
from wakeline.core.store import Store
from wakeline.core.subscription import Filters, Subscription
from wakeline.core.waking import Why
from wakeline.flow import evidence
from wakeline.flow.enrol import ChangePrincipal
from wakeline.flow.plan import Planned

HOUR = 3600 * SECOND


class Look(msgspec.Struct, frozen=True):
    """Changes nothing and answers all that planning this subscription goes by."""

    workspace_id: int
    subscription_id: str

    def needs(self, needs: Needs) -> None:
        evidence.need_plans(needs, [self.subscription_id], seatless=[self.subscription_id])

    def decide(self, picture: Picture) -> dict[str, Any]:
        shown = ("workspace", "subscriptions", "wakes", "deliveries", "cursors", "buckets", "principals", "receipts")
        return {name: dict(picture_rows(picture, name)) for name in shown}


def picture_rows(picture: Picture, name: str) -> Any:
    rows = getattr(picture, name)
    return {"workspace": rows} if name == "workspace" else rows


class Desk:
    """One agent with a webhook, and a store that remembers beside one that was opened only now."""

    def __init__(self, place: SqlitePlace, store: Store, workspace: Workspace, **rules: Any) -> None:
        self.place, self.store, self.workspace = place, store, workspace
        self.bell = Bell(store, workspace, **rules)

    async def check(self, row: Subscription) -> dict[str, Any]:
        look = Look(self.workspace.workspace_id, row.subscription_id)
        remembered: dict[str, Any] = await self.store.submit(look)
        other = await self.place.open()
        assert remembered == await other.submit(look)
        await other.close()
        return remembered

    async def mail(self) -> list[Planned]:
        """And what it rings at once."""
        await send(self.store, agent(self.workspace, "@ann"), "@bob")
        return await self.bell.match()


@pytest.fixture
async def desk(sqlite: SqlitePlace) -> Desk:
    store = await sqlite.open()
    return Desk(sqlite, store, await open_workspace(store, "@ann", "@bob"), wake_budget_per_hour=4)


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_from_the_first_mail_to_the_end_of_the_budget(sqlite: SqlitePlace, desk: Desk) -> None:
    row = await desk.bell.subscribe("@bob", coalesce_window=0)
    await desk.check(row)
    rung = 0
    for _ in range(6):
        planned = await desk.mail()
        await desk.check(row)
        for one in planned:
            rung += 1
            await desk.bell.settle(one)
            await desk.check(row)
        sqlite.now += 1
    seen = await desk.check(row)
    assert rung == 4
    assert len(seen["wakes"]) == 2, "the rest is held"
    assert seen["subscriptions"][row.subscription_id].events == 6


async def test_mail_that_arrives_while_it_rings_is_not_forgotten(desk: Desk) -> None:
    row = await desk.bell.subscribe("@bob", coalesce_window=0)
    [first] = await desk.mail()
    assert await desk.mail() == []
    seen = await desk.check(row)
    assert (len(seen["wakes"]), len(seen["deliveries"])) == (1, 1)
    settled = await desk.bell.settle(first)
    assert settled.planned is not None
    await desk.check(row)
    await desk.bell.settle(settled.planned, Failed("unreachable", "the receiver is away"))
    await desk.check(row)


async def test_a_subscription_that_ends_in_the_batch_of_a_post_is_not_rung(desk: Desk) -> None:
    row = await desk.bell.subscribe("@bob", coalesce_window=0)
    for planned in await desk.mail():
        await desk.bell.settle(planned)
    await desk.check(row)
    retired = msgspec.structs.replace(row, status="retired")
    ann = agent(desk.workspace, "@ann")
    await in_one_batch(desk.store, [Plant(desk.workspace.workspace_id, retired), post(ann, "@bob")])
    assert await desk.bell.match() == []
    await desk.check(row)


async def test_one_that_begins_in_the_batch_of_a_post_is_rung(desk: Desk) -> None:
    row = subscription(desk.workspace, "@bob", coalesce_window=0)
    ann = agent(desk.workspace, "@ann")
    await in_one_batch(desk.store, [Plant(desk.workspace.workspace_id, row), post(ann, "@bob")])
    [planned] = await desk.bell.match()
    await desk.check(row)
    await desk.bell.settle(planned)
    await desk.check(row)


async def test_an_owner_who_is_not_to_be_disturbed_from_the_batch_of_a_post_on_is_not(desk: Desk) -> None:
    row = await desk.bell.subscribe("@bob", coalesce_window=0)
    await desk.check(row)
    hushed = ChangePrincipal(human(desk.workspace), "@bob", None, None, None, dnd_until=desk.place.now + HOUR)
    await in_one_batch(desk.store, [hushed, post(agent(desk.workspace, "@ann"), "@bob")])
    assert await desk.bell.match() == []
    seen = await desk.check(row)
    assert [wake.reason for wake in seen["wakes"].values()] == [Why.QUIET]


async def test_two_subscriptions_of_one_owner_draw_on_one_budget(desk: Desk) -> None:
    first = await desk.bell.subscribe("@bob", coalesce_window=0, filters=Filters(tagged_concepts=("one",)))
    second = await desk.bell.subscribe("@bob", coalesce_window=0, filters=Filters(tagged_concepts=("two",)))
    ann = agent(desk.workspace, "@ann")
    for tag in ("one", "two", "two", "one"):
        await send(desk.store, ann, "@bob", tags=(tag,))
        for planned in await desk.bell.match():
            await desk.check(first)
            await desk.check(second)
            await desk.bell.settle(planned)
    assert await desk.check(first) != await desk.check(second)
