"""Guards live in the store: they survive a restart, hold on every node, and fire once however many cross the limit."""

from __future__ import annotations

import asyncio

import pytest

from tests.store.builders import agent, human, inbox, log_of, open_workspace, post, send
from tests.store.elsewhere import Meanwhile, on_another_node
from tests.store.places import Place, PostgresPlace
from wakeline.core.guardrail import Guardrails
from wakeline.core.log import Workspace
from wakeline.core.queries import ThreadFor
from wakeline.core.store import Store
from wakeline.core.thread import Status, Thread
from wakeline.flow.convene import ChangeStatus
from wakeline.flow.post import Accepted
from wakeline.store.postgres.store import PostgresStore

RAILS = Guardrails()


async def thread_of(store: Store, workspace: Workspace, thread_id: str) -> Thread:
    [found] = await store.read(ThreadFor(workspace.workspace_id, thread_id, "@human"))
    return found.thread


def codes(answers: list[Accepted]) -> list[str | None]:
    return [None if answer.guard is None else answer.guard.code for answer in answers]


@pytest.mark.guarantee("G-GUARD")
async def test_counters_are_there_after_a_restart(place: Place) -> None:
    first = await place.open()
    workspace = await open_workspace(first, "@ann", "@bob")
    last = [await send(first, agent(workspace, "@ann"), "@bob", "ok", rails=RAILS) for _ in range(2)][-1]
    await place.close()
    again = await place.open()
    thread = await thread_of(again, workspace, last.thread_id)
    assert (thread.repeats, thread.last_sender) == (2, "@ann")
    assert codes([await send(again, agent(workspace, "@bob"), "@ann", "OK", rails=RAILS)]) == ["LOOP_REPEATS"]
    await place.close()


@pytest.mark.guarantee("G-GUARD")
async def test_posts_at_once_that_cross_the_limit_fire_once(store: Store, workspace: Workspace) -> None:
    same = [post(agent(workspace, "@ann"), "@bob", "ok", rails=RAILS) for _ in range(20)]
    answers = await asyncio.gather(*(store.submit(one) for one in same))
    assert sorted(codes(answers), key=str) == ["LOOP_REPEATS"] + [None] * 19
    assert [one.message.sender for one in await inbox(store, human(workspace))] == ["@system"]
    assert len(await inbox(store, agent(workspace, "@bob"))) == 21  # all of them, and the entry that says why
    assert [entry.log.kind for entry in await log_of(store, workspace)].count("guard.fired") == 1


@pytest.mark.guarantee("G-GUARD")
async def test_two_nodes_that_cross_the_limit_at_once_fire_once(postgres: PostgresPlace) -> None:
    node = await postgres.open()
    workspace = await open_workspace(node, "@ann", "@bob")
    theirs: list[Accepted] = []

    async def overtake(other: PostgresStore) -> None:
        theirs.append(await send(other, agent(workspace, "@bob"), "@ann", "ok", rails=RAILS))

    for _ in range(2):
        await send(node, agent(workspace, "@ann"), "@bob", "ok", rails=RAILS)
    third = Meanwhile(
        post(agent(workspace, "@ann"), "@bob", "ok", rails=RAILS), lambda: on_another_node(postgres, overtake)
    )
    ours = await node.submit(third)
    assert third.decisions == 2
    assert codes([theirs[0], ours]) == ["LOOP_REPEATS", None]
    assert len(await inbox(node, human(workspace))) == 1


async def test_a_thread_that_the_human_unblocks_goes_on(store: Store, workspace: Workspace) -> None:
    last = [await send(store, agent(workspace, "@ann"), "@bob", "ok", rails=RAILS) for _ in range(3)][-1]
    blocked = await thread_of(store, workspace, last.thread_id)
    assert (blocked.status, blocked.escalation_owner) == (Status.BLOCKED, "@human")
    await store.submit(ChangeStatus(human(workspace), last.thread_id, "e" * 26, Status.ACTIVE, None, None, False))
    assert codes([await send(store, agent(workspace, "@ann"), "@bob", "ok", rails=RAILS) for _ in range(3)]) == [
        None,
        None,
        "LOOP_REPEATS",
    ]
    assert len(await inbox(store, human(workspace))) == 2
