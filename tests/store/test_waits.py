"""Waits live in the store: a circle is refused however its questions interleave; what is over binds nobody."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.store.builders import HOUR, agent, inbox, log_of, open_workspace, post, send
from tests.store.elsewhere import Meanwhile, on_another_node
from tests.store.places import PostgresPlace
from wakeline.core.instant import SECOND
from wakeline.core.log import Workspace
from wakeline.core.principal import Caller
from wakeline.core.store import Store
from wakeline.errors import Conflict
from wakeline.flow.ask import EndWait
from wakeline.flow.post import Accepted, Post
from wakeline.store.postgres.store import PostgresStore


def question(caller: Caller, to: str, **fields: Any) -> Post:
    return msgspec.structs.replace(post(caller, to, "well?", **fields), wait=50 * SECOND)


def refused(answers: list[Accepted | BaseException]) -> list[str]:
    return [answer.message for answer in answers if isinstance(answer, Conflict) and answer.code == "WAIT_CYCLE"]


@pytest.mark.guarantee("G-WAIT")
async def test_three_questions_at_once_that_close_a_circle_leave_one_refused(
    store: Store, workspace: Workspace
) -> None:
    ring = [("@ann", "@bob"), ("@bob", "@cat"), ("@cat", "@ann")]
    asked = [store.submit(question(agent(workspace, asker), to)) for asker, to in ring]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert refused(answers) == ["Nobody could answer: @cat waits for @ann waits for @bob waits for @cat."]
    assert [entry.log.kind for entry in await log_of(store, workspace)].count("message.posted") == 2


@pytest.mark.parametrize("to", ["@bob", "role:reviewer", "everyone"])
async def test_a_question_wakes_at_once_unless_it_says_otherwise(store: Store, to: str) -> None:
    workspace = await open_workspace(store, "@ann", "@bob", roles=("reviewer",))
    ann = agent(workspace, "@ann")
    for asked in (question(ann, to), msgspec.structs.replace(question(ann, to), wake_policy="next_turn")):
        await store.submit(asked)
    mail = await inbox(store, agent(workspace, "@bob"))
    assert [found.message.wake_policy for found in mail] == ["immediate", "next_turn"]


@pytest.mark.guarantee("G-WAIT")
async def test_two_nodes_that_ask_each_other_at_once_refuse_one(postgres: PostgresPlace) -> None:
    node = await postgres.open()
    workspace = await open_workspace(node, "@ann", "@bob")

    async def overtake(other: PostgresStore) -> None:
        await other.submit(question(agent(workspace, "@bob"), "@ann"))

    ours = Meanwhile(question(agent(workspace, "@ann"), "@bob"), lambda: on_another_node(postgres, overtake))
    with pytest.raises(Conflict, match="@ann waits for @bob waits for @ann"):
        await node.submit(ours)
    assert ours.decisions == 2


async def test_an_answer_that_is_stored_ends_the_wait_before_the_asker_hears_of_it(
    store: Store, workspace: Workspace
) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    asked = await store.submit(question(ann, "@bob"))
    with pytest.raises(Conflict, match="Nobody could answer"):
        await store.submit(question(bob, "@ann"))
    await send(store, bob, in_reply_to=asked.message_id)
    await store.submit(question(bob, "@ann"))


async def test_a_wait_that_was_ended_or_forgotten_binds_nobody(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    first = await store.submit(question(ann, "@bob"))
    await store.submit(EndWait(ann, first.message_id, None))
    second = await store.submit(question(bob, "@ann"))
    await store.submit(EndWait(bob, second.message_id, None))
    await store.forget_old_waits(await store.now() + HOUR)
    await store.forget_old_waits(await store.now() + HOUR)
    await store.submit(question(ann, "@bob"))


async def test_asking_on_with_the_same_key_keeps_whom_it_waits_for(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    first = await store.submit(question(ann, "@bob", idempotency_key="k"))
    await store.submit(EndWait(ann, first.message_id, None))
    assert await store.submit(question(ann, "@bob", idempotency_key="k")) == first
    with pytest.raises(Conflict, match="@bob waits for @ann waits for @bob"):
        await store.submit(question(bob, "@ann"))
