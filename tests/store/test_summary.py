"""A summary is of the whole thread, however long it is, and says of it what its reader may read."""

from __future__ import annotations

import asyncio

from tests.store.builders import UNGUARDED, agent, human, new_id, open_workspace, post, send
from wakeline import wire
from wakeline.core.instant import to_datetime
from wakeline.core.log import Workspace
from wakeline.core.principal import PARTICIPANT, Caller, Kind
from wakeline.core.queries import ThreadPage
from wakeline.core.store import Store
from wakeline.core.summary import is_decision, is_question
from wakeline.core.thread import Status
from wakeline.flow.convene import ChangeStatus
from wakeline.flow.enrol import AddPrincipal
from wakeline.flow.retract import Retract
from wakeline.service import views
from wakeline.service.context import Context
from wakeline.service.threads import Threads

LONG = 520


async def summarise(store: Store, caller: Caller, thread_id: str) -> wire.ThreadSummary:
    return await Threads(Context(store, UNGUARDED, new_id)).summarise(caller, thread_id)


async def test_a_summary_forgets_nothing_of_a_long_thread(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    asked = await send(store, ann, "@bob", "Which one?")
    await send(store, bob, "@ann", "Decision: the red one")
    answered = await send(store, ann, "@bob", "Really?")
    await asyncio.gather(*(store.submit(post(ann, "@bob", f"and on {n}")) for n in range(LONG)))
    await send(store, bob, in_reply_to=answered.message_id, body="Really.")
    summary = await summarise(store, bob, asked.thread_id)
    assert summary.messages == sum(one.messages for one in summary.participants) == LONG + 4
    assert [(one.handle, one.messages) for one in summary.participants] == [("@ann", LONG + 2), ("@bob", 2)]
    assert [(one.seq, one.text) for one in summary.open_questions] == [(1, "Which one?")]
    assert [(one.seq, one.text) for one in summary.decisions] == [(2, "Decision: the red one")]
    assert summary.summarised_from_seq == 1
    assert summary.first_at == to_datetime(asked.created_at)
    assert "Open question from @ann (#1): Which one?" in summary.text


async def test_a_question_is_open_until_somebody_else_replies(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    ready = await send(store, ann, "@bob", "Ready?")
    green = await send(store, bob, "@ann", "Green?")
    await send(store, ann, in_reply_to=ready.message_id, body="I mean the tests.")
    await send(store, ann, in_reply_to=green.message_id, body="Why?")
    taken_back = await send(store, ann, "@bob", "Or not?")
    await store.submit(Retract(ann, taken_back.message_id, None))
    summary = await summarise(store, ann, ready.thread_id)
    assert [one.text for one in summary.open_questions] == ["Ready?", "Why?"]


SAID = [
    "Shall we?", "Shall we? \n\t", "Shall we?\u00a0\u3000", "Shall we? Yes.", "?", "",
    "Decision: ship", " \u2003DECIDED\t- ship", "agreed: ship", "Agreed -- ship", "The decision: none", "decisions: a",
    "decision", "Agreed with that", "decided", "AGREED\u00a0:", "100%?", "_decision:",
]  # fmt: skip


async def test_the_store_finds_the_questions_and_decisions_that_the_rules_name(
    store: Store, workspace: Workspace
) -> None:
    ann = agent(workspace, "@ann")
    for body in SAID:
        await send(store, ann, "@bob", body)
    for tags in (["decision"], ["Decision"], ["decisions"]):
        await send(store, ann, "@bob", "tagged", tags=tags)
    sent = await send(store, ann, "@bob", "the end")
    for status in (Status.BLOCKED, Status.ACTIVE):
        change = ChangeStatus(human(workspace), sent.thread_id, new_id(), status, "so", None, override=True)
        await store.submit(change)
    now = await store.now()
    shown = [views.message(row.message, None, now) for row in await store.read(ThreadPage(sent.thread_id, 0, "@x", 99))]
    summary = await summarise(store, ann, sent.thread_id)
    assert [one.seq for one in summary.open_questions] == [one.seq for one in shown if is_question(one)]
    assert [one.seq for one in summary.decisions] == [one.seq for one in shown if is_decision(one)]
    assert len(summary.open_questions) == 5
    assert len(summary.decisions) == 8


async def test_who_is_not_in_a_thread_hears_of_their_own_part_of_it(store: Store) -> None:
    workspace = await open_workspace(store, "@ann", roles=("reviewer",))
    await store.submit(AddPrincipal(human(workspace), "@eve", Kind.AGENT, (PARTICIPANT,), None, None))
    eve = agent(workspace, "@eve")
    asked = await send(store, eve, "role:reviewer", "May I?")
    other = await send(store, human(workspace), "role:reviewer", "Decision: not for Eve")
    assert other.thread_id == asked.thread_id
    summary = await summarise(store, eve, asked.thread_id)
    assert (summary.messages, [one.handle for one in summary.participants]) == (1, ["@eve"])
    assert [one.text for one in summary.open_questions] == ["May I?"]
    assert summary.decisions == []
