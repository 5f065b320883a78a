"""A wake in the commit of its post, where one process writes: never out of order, never twice, never in its way."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.store.bells import CLAIMS, Bell
from tests.store.builders import agent, open_workspace, post, send
from tests.store.places import SqlitePlace
from tests.store.subscribing import subscribe
from wakeline.core.log import Workspace
from wakeline.core.store import Store
from wakeline.core.subscription import Target
from wakeline.core.wake_queries import MatchedMessage
from wakeline.errors import WakelineError
from wakeline.flow.at_once import AtOnce
from wakeline.flow.match import Match
from wakeline.flow.plan import Planned
from wakeline.runtime import clock
from wakeline.store.sqlite import apart
from wakeline.store.sqlite.commits import Commits
from wakeline.store.sqlite.connection import connect
from wakeline.store.sqlite.frames import Frames, pack
from wakeline.store.sqlite.room import Room
from wakeline.store.sqlite.store import SqliteStore


@pytest.fixture
async def store(sqlite: SqlitePlace) -> Store:
    return await sqlite.open()


class Clumsy(AtOnce, frozen=True):
    """Fails when it is needed."""

    def command(self, workspace_id: int, found: list[MatchedMessage], now: int) -> Match | None:
        super().command(workspace_id, found, now)
        raise ZeroDivisionError


class Ears:
    def __init__(self, store: Store, follow_up: AtOnce) -> None:
        self.told: list[tuple[str, str]] = []
        self.planned: list[Planned] = []
        store.follow_up(follow_up, self._hear, self._expect)

    def _expect(self, planned: Sequence[Planned]) -> None:
        self.told += [("expected", one.delivery.delivery_id) for one in planned]

    def _hear(self, planned: Sequence[Planned]) -> None:
        self.told += [("heard", one.delivery.delivery_id) for one in planned]
        self.planned += planned


def at_once(bell: Bell, kind: type[AtOnce] = AtOnce) -> AtOnce:
    return kind(bell.rules, bell.node, CLAIMS)


async def mail(bell: Bell) -> Any:
    return await send(bell.store, agent(bell.workspace, "@ann"), "@bob")


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_the_wake_is_there_when_the_post_is_answered_and_is_not_found_again(
    store: Store, workspace: Workspace
) -> None:
    bell = Bell(store, workspace, at_once=False)
    row = await bell.subscribe("@bob")
    ears = Ears(store, at_once(bell))
    sent = await mail(bell)
    [planned] = ears.planned
    assert (planned.subscription.subscription_id, planned.delivery.log_id) == (row.subscription_id, sent.log_id)
    assert planned.delivery.lease_owner == bell.node
    assert await bell.match() == []
    assert len(await bell.deliveries()) == 1


@pytest.mark.guarantee("G-WAKE-ONCE")
async def test_nothing_overtakes_what_the_matcher_has_still_to_find(store: Store, workspace: Workspace) -> None:
    bell = Bell(store, workspace, at_once=False)
    await bell.subscribe("@bob", coalesce_window=0)
    first = await mail(bell)  # nobody follows up yet
    ears = Ears(store, at_once(bell))
    second = await mail(bell)
    assert ears.planned == []
    [planned] = await bell.match()
    assert planned.delivery.log_id == first.log_id
    settled = await bell.settle(planned)
    assert settled.planned is not None
    assert settled.planned.delivery.log_id == second.log_id
    await bell.settle(settled.planned)
    await mail(bell)
    assert len(ears.planned) == 1, "and now nothing is left to overtake"


async def test_what_fails_after_a_post_does_not_fail_the_post(store: Store, workspace: Workspace) -> None:
    bell = Bell(store, workspace, at_once=False)
    await bell.subscribe("@bob")
    ears = Ears(store, at_once(bell, Clumsy))
    sent = await mail(bell)
    assert ears.planned == []
    [planned] = await bell.match()
    assert planned.delivery.log_id == sent.log_id


async def test_who_is_told_over_a_connection_is_left_to_who_knows_the_connections(
    store: Store, workspace: Workspace
) -> None:
    bell = Bell(store, workspace, at_once=False)
    bell.here = frozenset({"@bob"})
    await bell.subscribe("@bob", target=Target.MCP, url=None)
    ears = Ears(store, at_once(bell))
    sent = await mail(bell)
    assert ears.planned == []
    [planned] = await bell.match()
    assert planned.delivery.log_id == sent.log_id


async def test_a_writer_of_its_own_says_it_before_the_commit_and_again_after_it(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "wakeline.db", clock.now, apart=True)
    bell = Bell(store, await open_workspace(store, "@ann", "@bob"), at_once=False)
    await store.submit(subscribe(agent(bell.workspace, "@bob")))
    ears = Ears(store, at_once(bell))
    await mail(bell)
    [planned] = ears.planned
    name = planned.delivery.delivery_id
    assert ears.told == [("expected", name), ("heard", name)]
    assert planned.delivery.attempts == 1
    await store.close()


async def test_what_was_said_before_a_commit_that_fails_is_taken_back(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "wakeline.db", clock.now)
    bell = Bell(store, await open_workspace(store, "@ann", "@bob"), at_once=False)
    await store.submit(subscribe(agent(bell.workspace, "@bob")))
    await store.close()
    connection = connect(tmp_path / "wakeline.db")
    connection.set_commit_hook(lambda: True)  # which makes every commit a rollback
    ours, theirs = socket.socketpair()
    ours.sendall(pack([clock.now(), 0], [at_once(bell), post(agent(bell.workspace, "@ann"), "@bob")]))
    ours.shutdown(socket.SHUT_WR)
    apart.serve(theirs, Commits(connection), Room(tmp_path / "wakeline.db"))
    theirs.close()
    frames, said = Frames(ours), []
    while (some := frames.receive()) is not None:
        said += some
    [([before, *_], [_, _, _, planned]), ([after, *_], [trouble, outcome])] = said
    assert (before, after) == (apart.DRAFT, apart.FINAL)
    assert isinstance(planned, Planned), "a wake was announced"
    assert isinstance(trouble, WakelineError)
    assert isinstance(outcome, WakelineError)
    ours.close()
    connection.close()


def wait_until_taken(line: socket.socket) -> None:
    while select.select([line], [], [], 0)[0]:
        time.sleep(0.001)


async def test_a_writer_waits_for_the_rest_of_what_it_is_sent(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "wakeline.db", clock.now)
    workspace = await open_workspace(store, "@ann", "@bob")
    await store.close()
    commits, (ours, theirs) = Commits(connect(tmp_path / "wakeline.db")), socket.socketpair()
    sent = pack([clock.now(), 0], [None, *(post(agent(workspace, "@ann"), "@bob", "x" * 9) for _ in range(3))])
    writer = threading.Thread(target=apart.serve, args=(theirs, commits, Room(tmp_path / "wakeline.db")))
    ours.settimeout(30)
    ours.sendall(sent[:100])
    writer.start()
    await asyncio.to_thread(wait_until_taken, theirs)
    ours.sendall(sent[100:])
    ours.shutdown(socket.SHUT_WR)
    await asyncio.to_thread(writer.join)
    [([state, many, _], [_, *answers])] = Frames(ours).receive() or []
    assert (state, many) == (apart.FINAL, 3)
    assert [one.seq for one in answers[:3]] == [1, 2, 3]
    ours.close()
    theirs.close()
