"""The hub hands out what the store offers only if it is what comes next; otherwise it reads, in order."""

from __future__ import annotations

import asyncio

import pytest

from tests.service.conftest import Halting
from tests.store.builders import agent, human, send
from wakeline.core.log import Workspace
from wakeline.flow.enrol import ChangePrincipal
from wakeline.service import Hub, Published, Stream
from wakeline.service.hub import PAGE


def listen(hub: Hub, workspace: Workspace, handle: str) -> Stream[Published]:
    stream = hub.open(agent(workspace, handle), lambda: None)
    hub.join(stream, hub.tail(workspace.workspace_id))
    return stream


def bodies(stream: Stream[Published]) -> list[str]:
    published = [item.entry.message for item in stream.queue if item is not None]
    return [message.body for message in published if message is not None]


async def test_what_comes_next_is_handed_out_without_reading(store: Halting, workspace: Workspace, hub: Hub) -> None:
    bob, cat = listen(hub, workspace, "@bob"), listen(hub, workspace, "@cat")
    before = store.reads
    answers = [await send(store, agent(workspace, "@ann"), "@bob", body) for body in ("one", "two")]
    assert (bodies(bob), bodies(cat)) == (["one", "two"], [])
    assert hub.tail(workspace.workspace_id) == answers[-1].log_id
    assert store.reads == before


async def test_who_joins_after_rows_that_nobody_heard_gets_only_what_is_new(
    store: Halting, workspace: Workspace, hub: Hub
) -> None:
    await send(store, agent(workspace, "@ann"), "@bob", "unheard")
    bob = listen(hub, workspace, "@bob")
    await send(store, agent(workspace, "@ann"), "@bob", "heard")
    assert bodies(bob) == ["heard"]


async def test_a_row_that_changes_rights_is_told_once(store: Halting, workspace: Workspace, hub: Hub) -> None:
    told: list[str] = []
    hub.on_control(lambda row: told.append(row.kind))
    await store.submit(ChangePrincipal(human(workspace), "@ann", ("reviewer",), None, None))
    assert told == ["agent.changed"]


async def test_what_is_offered_while_a_ring_is_pending_waits_for_its_turn(
    store: Halting, workspace: Workspace, hub: Hub
) -> None:
    bob = listen(hub, workspace, "@bob")
    hub.look(0)
    await send(store, agent(workspace, "@ann"), "@bob", "one")
    assert bodies(bob) == []
    running = asyncio.create_task(hub.run())
    await bob.wait()
    assert bodies(bob) == ["one"]
    running.cancel()


@pytest.mark.guarantee("G-LOG-ORDER")
async def test_what_is_offered_while_the_hub_reads_is_neither_lost_nor_doubled(
    store: Halting, workspace: Workspace, hub: Hub
) -> None:
    bob = listen(hub, workspace, "@bob")
    running = asyncio.create_task(hub.run())
    store.reading.clear()
    store.go_on.clear()
    hub.look(workspace.workspace_id)
    await store.reading.wait()  # it has found nothing new, and does not know it yet
    await send(store, agent(workspace, "@ann"), "@bob", "one")
    assert bodies(bob) == []
    store.go_on.set()
    while len(bob.queue) < 1:
        await bob.wait()
    await send(store, agent(workspace, "@ann"), "@bob", "two")
    while len(bob.queue) < 2:
        await bob.wait()
    assert bodies(bob) == ["one", "two"]
    running.cancel()


@pytest.mark.guarantee("G-LOG-ORDER")
@pytest.mark.parametrize("changes", [1, PAGE, PAGE + 1])
async def test_who_joins_while_the_hub_reads_what_nobody_heard_misses_nothing(
    store: Halting, workspace: Workspace, hub: Hub, changes: int
) -> None:
    """Rows that change rights are read by the page, and a message stands among them."""
    hub.look(workspace.workspace_id)  # so nothing is handed out, and all of it is read
    for n in range(changes):
        if n == changes - 1:
            await send(store, agent(workspace, "@ann"), "@bob", "one")
        await store.submit(ChangePrincipal(human(workspace), "@ann", (f"role{n}",), None, None))
    store.reading.clear()
    store.go_on.clear()
    running = asyncio.create_task(hub.run())
    await store.reading.wait()
    bob, ring = listen(hub, workspace, "@bob"), asyncio.Event()
    hub.expect_mail(agent(workspace, "@bob"), ring)
    store.go_on.set()
    async with asyncio.timeout(10):
        await ring.wait()
    assert bodies(bob) == ["one"]
    running.cancel()


async def test_a_listener_that_breaks_does_not_keep_the_poster_waiting(
    store: Halting, workspace: Workspace, hub: Hub
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)

    def broken(_workspace_id: int) -> None:
        raise RuntimeError("a bug")

    store.on_commit(broken)
    assert (await send(store, agent(workspace, "@ann"), "@bob")).seq == 1
