"""What concerns a subscription among what will be written is the same as what would be found once it is written."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from tests.store.bells import CLAIMS, Bell, Plant, subscription
from tests.store.builders import agent, human, open_workspace, post
from tests.store.places import SqlitePlace
from tests.store.test_batches import in_one_batch
from wakeline.core.log import Workspace
from wakeline.core.picture import Picture
from wakeline.core.store import Read, Store, Watchers
from wakeline.core.subscription import Filters, Target
from wakeline.core.wake_queries import MatchedMessage
from wakeline.flow.at_once import AtOnce
from wakeline.flow.plan import Planned

AGENTS = ("@ann", "@bob", "@cat")
FILTERS = (
    Filters(),
    Filters(priority="high"),
    Filters(sender_filter=("@ann",)),
    Filters(tagged_concepts=("build", "test")),
    Filters(tagged_concepts=("build",), sender_filter=("@bob",), priority="normal"),
)


Rows = list[MatchedMessage]


class Both(AtOnce, frozen=True):
    """Looks into memory, then goes the other way, and keeps what both have told."""

    told: list[Rows | None] = msgspec.field(default_factory=list)
    compared: list[tuple[Rows, Rows]] = msgspec.field(default_factory=list)

    def at_hand(self, picture: Picture, watchers: Watchers) -> Rows | None:
        self.told.append(super().at_hand(picture, watchers))
        return None

    def find(self, read: Read, workspace_id: int, after: int, until: int) -> Rows:
        found = super().find(read, workspace_id, after, until)
        told = self.told.pop() if self.told else None
        if told is not None:
            self.compared.append((_wanted(self, told), _wanted(self, found)))
        return found


def _wanted(follow_up: AtOnce, rows: Rows) -> Rows:
    """The index of keys leaves out most of what filters would: only what passes them counts."""
    command = follow_up.command(1, rows, 0)
    passed = [] if command is None else [(one.subscription_id, one.log_id) for one in command.found]
    by_key = {(row.subscription_id, row.log_id): row for row in rows}
    return [by_key[key] for key in sorted(passed)]


class Counting(AtOnce, frozen=True):
    """Notes who had to be looked for in the database."""

    looked: list[int] = msgspec.field(default_factory=list)

    def find(self, read: Read, workspace_id: int, after: int, until: int) -> Rows:
        self.looked.append(until)
        return super().find(read, workspace_id, after, until)


@pytest.fixture
async def store(sqlite: SqlitePlace) -> Store:
    return await sqlite.open()


@pytest.fixture
async def workspace(store: Store) -> Workspace:
    return await open_workspace(store, *AGENTS)


def some_post(dice: random.Random, workspace: Workspace) -> Any:
    sender = human(workspace) if dice.random() < 0.2 else agent(workspace, dice.choice(AGENTS))
    to = dice.choice(("@ann", "@bob", "@cat", "everyone"))
    fields: dict[str, Any] = {"priority": dice.choice(("high", "normal", "low"))}
    if dice.random() < 0.5:
        fields["tags"] = dice.sample(("build", "test", "docs"), dice.randint(1, 2))
    if dice.random() < 0.2:
        fields["wake_policy"] = dice.choice(("silent", "next_turn"))
    return post(sender, to, f"news {dice.random()}", **fields)


@pytest.mark.guarantee("G-WAKE-ONCE")
@pytest.mark.parametrize("seed", range(6))
async def test_memory_tells_what_the_database_would(store: Store, workspace: Workspace, seed: int) -> None:
    dice, bell = random.Random(seed), Bell(store, workspace, at_once=False, wake_budget_per_hour=1_000)
    planned: list[Planned] = []
    both = Both(bell.rules, bell.node, CLAIMS)
    store.follow_up(both, planned.extend, lambda _planned: None)
    for handle in AGENTS:
        for filters in (Filters(), dice.choice(FILTERS[:4])):
            target = dice.choice((Target.WEBHOOK, Target.WEBHOOK, Target.MCP))
            await bell.subscribe(handle, filters=filters, target=target, coalesce_window=dice.choice((0, 300)))
    for _ in range(100):
        await in_one_batch(store, [some_post(dice, workspace) for _ in range(dice.randint(1, 3))])
        while planned and dice.random() < 0.7:
            await bell.settle(planned.pop())
    assert sum(bool(found) for _, found in both.compared) >= 10
    for told, found in both.compared:
        assert told == found


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_only_the_first_mail_is_looked_for(store: Store, workspace: Workspace) -> None:
    bell = Bell(store, workspace, at_once=False)
    await bell.subscribe("@bob", coalesce_window=0)
    planned: list[Planned] = []
    counting = Counting(bell.rules, bell.node, CLAIMS)
    store.follow_up(counting, planned.extend, lambda _planned: None)
    for number in range(5):
        await store.submit(post(agent(workspace, "@ann"), "@bob", f"mail {number}"))
        await bell.settle(planned[-1])
    assert (len(planned), len(counting.looked)) == (5, 1)
    row = await bell.subscribe("@bob", coalesce_window=0)
    await store.submit(post(agent(workspace, "@ann"), "@bob", "to both"))
    assert {one.subscription.subscription_id for one in planned[5:]} >= {row.subscription_id}
    assert (len(planned), len(counting.looked)) == (7, 2)
    assert await bell.match() == []


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_who_subscribes_in_the_batch_of_the_mail_is_woken_at_once_too(store: Store, workspace: Workspace) -> None:
    bell = Bell(store, workspace, at_once=False)
    old = await bell.subscribe("@bob", coalesce_window=0)
    planned: list[Planned] = []
    store.follow_up(AtOnce(bell.rules, bell.node, CLAIMS), planned.extend, lambda _planned: None)
    await store.submit(post(agent(workspace, "@ann"), "@bob", "first"))
    await bell.settle(planned.pop())
    new = subscription(workspace, "@bob", coalesce_window=0)
    await in_one_batch(store, [Plant(workspace.workspace_id, new), post(agent(workspace, "@ann"), "@bob", "second")])
    assert {one.subscription.subscription_id for one in planned} == {old.subscription_id, new.subscription_id}
