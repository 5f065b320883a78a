"""Mail is looked at for those who want to hear of it, from the moment they do, and for nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from tests.service.conftest import Halting
from tests.store.builders import UNGUARDED, agent, new_id, send
from wakeline.core.log import Workspace
from wakeline.service import Caller, Ear, Hub, Pushes, Stream
from wakeline.service.context import Context
from wakeline.service.inbox import Inboxes
from wakeline.service.pushes import COALESCE_SECONDS, Push


class Client:
    """Who takes every wake, and wants to hear of mail or not."""

    def __init__(self, *, wants_mail: bool) -> None:
        self.wants_mail = wants_mail
        self.ear = Ear(lambda _: True, lambda: self.wants_mail)

    def wants(self, wants_mail: bool) -> None:  # noqa: FBT001 - it is the whole sentence
        self.wants_mail = wants_mail
        self.ear.changed()


@pytest.fixture
async def pushes(store: Halting, hub: Hub) -> AsyncIterator[Pushes]:
    pushes = Pushes(hub, Inboxes(Context(store, UNGUARDED, new_id), hub))
    running = asyncio.create_task(pushes.run())
    yield pushes
    assert not running.done()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def told(stream: Stream[Push]) -> dict[str, Any]:
    async with asyncio.timeout(10):
        while not stream.queue:
            await stream.wait()
    item = stream.queue.popleft()
    assert item is not None
    return dict(item.event)


async def all_was_looked_at() -> None:
    await asyncio.sleep(3 * COALESCE_SECONDS)


async def test_mail_is_not_looked_at_for_who_does_not_want_to_hear_of_it(
    store: Halting, workspace: Workspace, hub: Hub, pushes: Pushes
) -> None:
    client = Client(wants_mail=False)
    async with pushes.open(agent(workspace, "@bob"), lambda: None, client.ear) as stream:
        before = store.reads
        await send(store, agent(workspace, "@ann"), "@bob")
        await all_was_looked_at()
        assert (store.reads, hub.is_heard(), len(stream.queue)) == (before, False, 0)
        assert pushes.push(workspace.workspace_id, "@bob", b'{"eventType":"wake/sent_to_me"}') == 1
        client.wants(True)
        assert hub.is_heard()
        await send(store, agent(workspace, "@ann"), "@bob")
        assert await told(stream) == {"eventType": "wake/sent_to_me"}
        assert await told(stream) == {"unread": 2, "position": str(hub.position(workspace.workspace_id))}
        client.wants(False)
        assert not hub.is_heard()


async def test_what_came_before_somebody_wanted_to_hear_of_it_is_not_told(
    store: Halting, workspace: Workspace, pushes: Pushes
) -> None:
    client = Client(wants_mail=False)
    async with pushes.open(agent(workspace, "@bob"), lambda: None, client.ear) as stream:
        await send(store, agent(workspace, "@ann"), "@bob")
        client.wants(True)
        await send(store, agent(workspace, "@bob"), "@cat")  # rings, for it is in a thread of his
        await all_was_looked_at()
        assert not stream.queue


async def test_only_those_who_want_to_are_told(store: Halting, workspace: Workspace, pushes: Pushes) -> None:
    bob = agent(workspace, "@bob")
    one, other = Client(wants_mail=True), Client(wants_mail=True)
    async with (
        pushes.open(bob, lambda: None, one.ear) as first,
        pushes.open(bob, lambda: None, other.ear) as second,
    ):
        await send(store, agent(workspace, "@ann"), "@bob")
        assert (await told(first))["unread"] == (await told(second))["unread"] == 1
        one.wants(False)
        await send(store, agent(workspace, "@ann"), "@bob")
        assert (await told(second))["unread"] == 2
        assert not first.queue


async def test_who_stops_wanting_or_leaves_while_the_mail_is_read_is_not_told(
    store: Halting, workspace: Workspace, pushes: Pushes
) -> None:
    client = Client(wants_mail=True)
    async with pushes.open(agent(workspace, "@bob"), lambda: None, client.ear) as stream:
        await _halt_in_the_middle(store, workspace)
        client.wants(False)
        store.go_on.set()
        await all_was_looked_at()
        assert not stream.queue
        client.wants(True)
        await _halt_in_the_middle(store, workspace)
    store.go_on.set()
    client.wants(True)  # it has left: nobody listens to what it wants
    async with pushes.open(agent(workspace, "@bob"), lambda: None, client.ear) as stream:
        await send(store, agent(workspace, "@ann"), "@bob")
        assert (await told(stream))["unread"] == 3
        await all_was_looked_at()
        assert not stream.queue


async def test_a_listener_is_greeted_when_it_may_take_more_wakes_and_not_for_its_mail(
    workspace: Workspace, pushes: Pushes
) -> None:
    greeted: list[str] = []

    async def greet(caller: Caller) -> None:
        greeted.append(caller.handle)

    pushes.on_arrival(greet)
    client = Client(wants_mail=False)
    async with pushes.open(agent(workspace, "@bob"), lambda: None, client.ear):
        assert greeted == ["@bob"]
        client.wants(True)
        client.wants(False)
        await all_was_looked_at()
        assert greeted == ["@bob"]
        client.ear.changed()
        await all_was_looked_at()
        assert greeted == ["@bob", "@bob"]


async def _halt_in_the_middle(store: Halting, workspace: Workspace) -> None:
    await send(store, agent(workspace, "@ann"), "@bob")
    store.reading.clear()
    store.go_on.clear()
    await store.reading.wait()
