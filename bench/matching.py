"""What one message costs to match with 100,000 subscriptions, beside 100; and to replay, beside a bare read."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import uvloop

from bench.results import Figure, figure
from bench.rounds import Plan, isolated, median, quantile, take_turns
from wakeline.core.guardrail import Guardrails
from wakeline.core.log import Workspace
from wakeline.core.message import SCHEMA_VERSION, Audience, Message
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import PARTICIPANT, Caller, Kind
from wakeline.core.queries import LogAfter
from wakeline.core.store import Store
from wakeline.core.subscription import (
    Filters,
    Subscription,
    SubscriptionKey,
    Target,
    Trigger,
    match_keys,
    parse_filters,
    to_json,
)
from wakeline.core.wake_queries import WakeMessages, WakeReplay
from wakeline.flow.enrol import AddPrincipal
from wakeline.flow.find import find_messages
from wakeline.flow.post import Post
from wakeline.runtime import clock
from wakeline.store.sqlite.store import SqliteStore

NAME = "matching"
AGENTS = 100
FEW, MANY = 100, 100_000
REPLAYED = 100_000
PAGE = 2_000
_RAILS = Guardrails(rate_per_second=10_000_000, rate_burst=1_000_000_000)


class Plant(msgspec.Struct, frozen=True):
    """Subscriptions as they stand in the store."""

    workspace_id: int
    rows: tuple[Subscription, ...]

    def needs(self, needs: Needs) -> None:
        pass

    def decide(self, picture: Picture) -> None:
        for row in self.rows:
            picture.put_subscription(row)
            for key in match_keys(parse_filters(row.filters)):
                picture.put_subscription_key(
                    SubscriptionKey(row.workspace_id, row.handle, row.trigger, key, row.subscription_id, 1)
                )


def _subscription(workspace: Workspace, handle: str, sender: str) -> Subscription:
    """Each asks for another sender, so one message is wanted by one of them, however many its receiver has."""
    return Subscription(
        subscription_id=clock.new_id(), workspace_id=workspace.workspace_id, handle=handle, trigger=Trigger.SENT_TO_ME,
        filters=to_json(Filters(sender_filter=(sender,))), route_key=clock.new_id(), target=Target.NONE, url=None,
        coalesce_window=None, metadata="{}", wake_policy="immediate", signing_key=None, previous_key=None,
        previous_key_until=None, status="active", status_reason=None, failures=0, from_log_id=0,
        created_at=clock.now(), updated_at=clock.now(),
    )  # fmt: skip


@asynccontextmanager
async def _world(path: Path, subscriptions: int) -> AsyncIterator[tuple[Store, Workspace, list[Caller]]]:
    store = await SqliteStore.open(path, clock.now)
    workspace = await store.add_workspace("default", "bench", "@human")
    human = Caller(workspace.workspace_id, workspace.name, "@human", Kind.HUMAN, "human", operator=True)
    handles = [f"@agent{number}" for number in range(AGENTS)]
    for handle in handles:
        await store.submit(AddPrincipal(human, handle, Kind.AGENT, (PARTICIPANT,), None, None))
    each = subscriptions // AGENTS
    rows = [
        _subscription(workspace, handle, handles[number] if number < AGENTS else f"@somebody{number}")
        for handle in handles
        for number in range(each)
    ]
    for start in range(0, len(rows), 5_000):
        await store.submit(Plant(workspace.workspace_id, tuple(rows[start : start + 5_000])))
    callers = [Caller(workspace.workspace_id, workspace.name, name, Kind.AGENT, PARTICIPANT) for name in handles]
    try:
        yield store, workspace, callers
    finally:
        await store.close()


def _post(caller: Caller, to: str) -> Post:
    message = Message(
        message_id=clock.new_id(), workspace_id=caller.workspace_id, thread_id="", seq=0, log_id=0,
        sender=caller.handle, session_id=None, kind="chat", subject="a subject", body="a body", recipients="[]",
        priority="normal", wake_policy="", tags="[]", in_reply_to=None, idempotency_key=None, expires_at=None,
        supersedes=None, metadata=None, schema_version=SCHEMA_VERSION, created_at=0,
    )  # fmt: skip
    return Post(caller, message, Audience(handles=(to,)), None, None, [], "", _RAILS)


def match_times(path: Path, subscriptions: int, posts: int) -> float:
    """Milliseconds, the median, to find what one new message means to subscriptions: without storing it."""
    return uvloop.run(_match_times(path, subscriptions, posts))


async def _match_times(path: Path, subscriptions: int, posts: int) -> float:
    took = []
    async with _world(path, subscriptions) as (store, workspace, callers):
        for number in range(posts):
            sent = await store.submit(_post(callers[0], callers[1 + number % (AGENTS - 1)].handle))
            began = time.perf_counter()
            rows = await store.read(WakeMessages(workspace.workspace_id, sent.log_id - 1, sent.log_id))
            found = find_messages(rows)
            took.append(time.perf_counter() - began)
            if len(found) != 1:
                raise RuntimeError(f"{len(found)} subscriptions were found, not one")
    return quantile(took, 0.5) * 1000


def replay_rates(path: Path) -> tuple[float, float]:
    """Rows per second of a replay, and of a bare read of the same rows."""
    return uvloop.run(_replay_rates(path))


async def _replay_rates(path: Path) -> tuple[float, float]:
    async with _world(path, 0) as (store, workspace, callers):
        row = msgspec.structs.replace(
            _subscription(workspace, "@agent1", ""), filters=to_json(Filters(sender_filter=("@agent0",)))
        )
        await store.submit(Plant(workspace.workspace_id, (row,)))
        for _ in range(REPLAYED // 500):
            await asyncio.gather(*(store.submit(_post(callers[0], "@agent1")) for _ in range(500)))
        replays, reads = [], []
        for _ in range(3):
            replays.append(await _rate(_replayed(store, workspace, row)))
            reads.append(await _rate(_read(store, workspace)))
    return median(replays), median(reads)


async def _rate(rows: AsyncIterator[int]) -> float:
    began, count = time.perf_counter(), 0
    async for some in rows:
        count += some
    return count / (time.perf_counter() - began)


async def _replayed(store: Store, workspace: Workspace, row: Subscription) -> AsyncIterator[int]:
    after = 0
    while True:
        asked = WakeReplay(workspace.workspace_id, after, 2**53, row.subscription_id, clock.now(), PAGE)
        rows = await store.read(asked)
        if not rows:
            return
        yield len(find_messages(rows))
        after = rows[-1].log_id


async def _read(store: Store, workspace: Workspace) -> AsyncIterator[int]:
    after = 0
    while True:
        rows = await store.read(LogAfter(workspace.workspace_id, after, PAGE))
        if not rows:
            return
        yield sum(row.message is not None for row in rows)
        after = rows[-1].log.log_id


def measure(plan: Plan) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="wakeline-bench-") as name:
        folder, numbers = Path(name), iter(range(1_000))

        def matched(subscriptions: int) -> float:
            return isolated(match_times, folder / f"{next(numbers)}.db", subscriptions, plan.posts)

        contenders = {"few": lambda: matched(FEW), "many": lambda: matched(MANY)}
        took = {one: median(all_) for one, all_ in take_turns(NAME, min(3, plan.rounds), contenders, "ms").items()}
        replayed, read = isolated(replay_rates, folder / "replay.db")
    return [
        figure(f"{NAME}: one message, {MANY:,} subscriptions", took["many"], took["few"], "ms",
               f"reference: the same with {FEW}", at_most=2),
        figure(f"{NAME}: replay of {REPLAYED:,} rows", replayed, read, "rows/s",
               "reference: a bare read of the same rows and messages, decoded", at_least=1 / 3),
    ]  # fmt: skip
