"""Guards live in the store: they survive a restart, hold on every node, and fire once however many cross the limit."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.store.builders import HOUR, agent, human, inbox, log_of, open_workspace, post, send
from tests.store.elsewhere import Meanwhile, on_another_node
from tests.store.places import Place, PostgresPlace
from wakeline.core.guardrail import Guardrails
from wakeline.core.log import Workspace
from wakeline.core.queries import DueAnswers, ThreadFor
from wakeline.core.store import Store
from wakeline.core.thread import Status, Thread
from wakeline.flow.chase import Chase
from wakeline.flow.convene import ChangeStatus
from wakeline.flow.post import Accepted
from wakeline.runtime.deadlines import AT_ONCE, chase_answers
from wakeline.store import statements
from wakeline.store.postgres.store import PostgresStore
from wakeline.store.sqlite.connection import prepare

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


# -- answers that do not come -----------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-ANSWER-BY")
async def test_a_deadline_without_an_answer_is_found_and_told_once(store: Store, workspace: Workspace) -> None:
    ann, bob, now = agent(workspace, "@ann"), agent(workspace, "@bob"), await store.now()
    late, answered = [await send(store, ann, "@bob", answer_by=now - 1, awaited=1) for _ in range(2)]
    await send(store, ann, "@bob", answer_by=now + HOUR, awaited=1)
    await send(store, bob, in_reply_to=answered.message_id)
    assert await store.read(DueAnswers(now, 10)) == [(workspace.workspace_id, late.message_id)]
    assert (await chase_answers(store, RAILS), await chase_answers(store, RAILS)) == (1, 0)
    [told] = await inbox(store, human(workspace))
    assert late.message_id in (told.message.metadata or "")
    assert "NO_ANSWER_BY_DEADLINE" in told.message.body


@pytest.mark.guarantee("G-ANSWER-BY")
async def test_two_nodes_that_sweep_at_once_tell_the_human_once(postgres: PostgresPlace) -> None:
    node = await postgres.open()
    workspace = await open_workspace(node, "@ann", "@bob")
    late = await send(node, agent(workspace, "@ann"), "@bob", answer_by=await node.now() - 1, awaited=1)

    async def overtake(other: PostgresStore) -> None:
        assert await chase_answers(other, RAILS) == 1

    slow = Meanwhile(Chase(workspace.workspace_id, late.message_id, RAILS), lambda: on_another_node(postgres, overtake))
    assert await node.submit(slow) is None
    assert slow.decisions == 2
    assert len(await inbox(node, human(workspace))) == 1


async def test_more_deadlines_than_one_page_are_all_told(store: Store, workspace: Workspace) -> None:
    ann, now = agent(workspace, "@ann"), await store.now()
    posts = [post(ann, "@bob", answer_by=now - 1, awaited=1) for _ in range(AT_ONCE + 5)]
    await asyncio.gather(*(store.submit(one) for one in posts))
    assert await chase_answers(store, RAILS) == AT_ONCE + 5


@pytest.mark.guarantee("G-COST")
def test_what_is_due_is_found_by_its_index(tmp_path: Path) -> None:
    connection = prepare(tmp_path / "wakeline.db", 0)
    statement = statements.load("sqlite", "due_answers")
    plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", (0, 1))]
    assert plan == ["SEARCH messages USING INDEX messages_awaited (answer_by<?)"]


async def test_a_flip_is_remembered(store: Store, workspace: Workspace) -> None:
    sent = await send(store, agent(workspace, "@ann"), "@bob")
    for number, (handle, status) in enumerate([("@ann", Status.RESOLVED), ("@bob", Status.ACTIVE)] * 3):
        entry_id = str(number) * 26
        await store.submit(ChangeStatus(agent(workspace, handle), sent.thread_id, entry_id, status, None, None, False))
    thread = await thread_of(store, workspace, sent.thread_id)
    assert (thread.status, thread.flips, thread.changed_by) == (Status.BLOCKED, 5, "@bob")
    assert [one.message.subject for one in await inbox(store, human(workspace))] == ["CONTRADICTORY_STATUS: @ann, @bob"]
