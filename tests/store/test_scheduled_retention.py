"""Retention as the settings ask for it, and when the sweep applies it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.store.bells import Bell
from tests.store.builders import UNGUARDED, agent, human, new_id, open_workspace, post, send
from tests.store.subscribing import PutSession, session
from wakeline.core.instant import plus
from wakeline.core.log import Workspace
from wakeline.core.queries import RefusalList, SessionList, ThreadPage, WorkspaceById
from wakeline.core.store import Store
from wakeline.core.thread import Status
from wakeline.errors import Forbidden, Unavailable
from wakeline.flow.ack import AckThread
from wakeline.flow.convene import ChangeStatus
from wakeline.flow.post import Accepted
from wakeline.runtime.parts import assemble
from wakeline.runtime.settings import Settings
from wakeline.runtime.sweeper import DAY, PRUNE_EVERY, Retention, sweep

MINUTE = timedelta(minutes=1)


class Later:
    """The same store, so much later: both databases can be asked, and one has its own clock."""

    def __init__(self, store: Store, later: timedelta) -> None:
        self._store = store
        self._later = later

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def now(self) -> int:
        return plus(await self._store.now(), self._later)


Make = Callable[..., Awaitable[Retention]]


@pytest.fixture
def retention(store: Store, tmp_path: Path) -> Make:
    async def make(later: timedelta, **settings: Any) -> Retention:
        shown: Any = Later(store, later)
        return (await assemble(Settings(data=tmp_path, **settings), shown)).retention

    return make


async def kept_from(store: Store, workspace: Workspace) -> int:
    [row] = await store.read(WorkspaceById(workspace.workspace_id))
    return row.first_log_id


async def close(store: Store, workspace: Workspace, sent: Accepted) -> None:
    change = ChangeStatus(human(workspace), sent.thread_id, new_id(), Status.CLOSED, "done", None, override=False)
    await store.submit(change)


async def count_messages(store: Store, sent: Accepted) -> int:
    return len(await store.read(ThreadPage(sent.thread_id, 0, "@bob", 10)))


async def test_the_log_and_ended_sessions_are_kept_for_as_many_days_as_the_setting_says(
    store: Store, workspace: Workspace, retention: Make
) -> None:
    sent = await send(store, agent(workspace, "@ann"), "@bob")
    now = await store.now()
    for n in range(2):  # the newest stays in any case
        await store.submit(PutSession(session(agent(workspace, "@bob"), heartbeat_at=now + n, ended_at=now + n)))
    await store.index()
    where = workspace.workspace_id
    assert await (await retention(99 * DAY, log_retention_days=0)).apply(where) == (0, 0, 0)
    assert await (await retention(3 * DAY - MINUTE, log_retention_days=3)).apply(where) == (0, 0, 0)
    assert await (await retention(3 * DAY + MINUTE, log_retention_days=3)).apply(where) == (4, 0, 1)
    assert await kept_from(store, workspace) == sent.log_id + 1
    assert len(await store.read(SessionList(where, "@bob", 1, 0, 100))) == 1
    assert await count_messages(store, sent) == 1


async def test_as_many_log_rows_are_kept_as_the_setting_says(
    store: Store, workspace: Workspace, retention: Make
) -> None:
    *_, last = [(await send(store, agent(workspace, "@ann"), "@bob")).log_id for _ in range(5)]
    await store.index()
    assert await (await retention(MINUTE, log_retention_rows=0)).apply(workspace.workspace_id) == (0, 0, 0)
    assert await (await retention(MINUTE, log_retention_rows=3)).apply(workspace.workspace_id) == (5, 0, 0)
    assert await kept_from(store, workspace) == last - 2


async def test_messages_of_closed_threads_are_kept_for_as_many_days_as_the_setting_says(
    store: Store, workspace: Workspace, retention: Make
) -> None:
    sent = await send(store, agent(workspace, "@ann"), "@bob")
    await close(store, workspace, sent)
    for reader in ("@ann", "@bob"):
        await store.submit(AckThread(agent(workspace, reader), sent.thread_id, 2))
    where = workspace.workspace_id
    kept = {"log_retention_days": 0}
    assert await (await retention(999 * DAY, closed_thread_retention_days=0, **kept)).apply(where) == (0, 0, 0)
    week = {"closed_thread_retention_days": 7, **kept}
    assert await (await retention(7 * DAY - MINUTE, **week)).apply(where) == (0, 0, 0)
    assert await count_messages(store, sent) == 2
    assert await (await retention(7 * DAY + MINUTE, **week)).apply(where) == (0, 2, 0)
    assert await count_messages(store, sent) == 0


async def test_the_schedule_covers_every_workspace_and_what_belongs_to_none(
    store: Store, workspace: Workspace, retention: Make
) -> None:
    other = await open_workspace(store, "@ann", name="other")
    bell = Bell(store, workspace)
    await bell.subscribe("@bob")
    await send(store, agent(workspace, "@ann"), "@bob")
    [planned] = await bell.match()
    await bell.settle(planned)
    await bell.matcher.save()
    with pytest.raises(Forbidden):
        await store.submit(post(agent(workspace, "@ann"), "@bob", tags=["system"]))
    await store.index()
    days = {"log_retention_days": 5, "delivery_retention_days": 20}
    await (await retention(20 * DAY - MINUTE, **days)).apply_everywhere()
    assert [await kept_from(store, one) for one in (workspace, other)] == [5, 2]
    assert len(await bell.deliveries()) == 1
    await (await retention(20 * DAY + MINUTE, **days)).apply_everywhere()
    assert await bell.deliveries() == []
    assert len(await store.read(RefusalList(workspace.workspace_id, 10))) == 1
    await (await retention(91 * DAY, **days)).apply_everywhere()
    assert await store.read(RefusalList(workspace.workspace_id, 10)) == []


class Hours:
    """The clock of a sweep, which looks at it once each time around.  It stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 10**15
        self.looks = 0
        self._looked = asyncio.Event()

    def __call__(self) -> int:
        self.looks += 1
        self._looked.set()
        return self.now

    async def pass_by(self, looks: int) -> None:
        until = self.looks + looks
        while self.looks < until:
            self._looked.clear()
            await self._looked.wait()


async def test_retention_is_applied_at_the_start_and_then_every_hour(store: Store, workspace: Workspace) -> None:
    retention = Retention(store, log_days=0, log_rows=1, closed_thread_days=0, delivery_days=1)
    await store.index()
    hours = Hours()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        sweeping = group.create_task(sweep(store, retention, UNGUARDED, 0, hours))
        await hours.pass_by(3)
        assert await kept_from(store, workspace) == 3
        await send(store, agent(workspace, "@ann"), "@bob")
        await store.index()
        hours.now = plus(hours.now, PRUNE_EVERY - MINUTE)
        await hours.pass_by(3)
        assert await kept_from(store, workspace) == 3
        hours.now = plus(hours.now, MINUTE)
        await hours.pass_by(3)
        assert await kept_from(store, workspace) == 4
        sweeping.cancel()


class Away(Later):
    """A store that fails so often when it is asked to prune."""

    def __init__(self, store: Store, failures: int) -> None:
        super().__init__(store, timedelta(0))
        self._failures = failures

    async def prune(self, workspace_id: int, *, before: int | None, keep: int | None) -> int:
        self._failures -= 1
        if self._failures >= 0:
            raise Unavailable("STORE_UNAVAILABLE", "It is away.")
        pruned: int = await self._store.prune(workspace_id, before=before, keep=keep)
        return pruned


async def test_retention_that_a_store_was_away_for_is_applied_the_next_time_not_an_hour_later(
    store: Store, workspace: Workspace
) -> None:
    away: Any = Away(store, failures=2)
    retention = Retention(away, log_days=0, log_rows=1, closed_thread_days=0, delivery_days=1)
    await store.index()
    hours = Hours()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        sweeping = group.create_task(sweep(away, retention, UNGUARDED, 0, hours))
        await hours.pass_by(5)
        assert await kept_from(store, workspace) == 3
        sweeping.cancel()
