from __future__ import annotations

import asyncio

import pytest

from tests.store.builders import agent, human, new_id, open_workspace, send
from wakeline.core.log import Workspace
from wakeline.core.queries import ConsumerCursor
from wakeline.core.store import Search, Store
from wakeline.flow.convene import CreateThread, RemoveMembers
from wakeline.flow.retract import Retract

TEXTS = [
    "The quick brown fox",
    "the lazy dog, and the QUICK cat",
    "see https://www.example.org/path/to-file.html?x=1",
    "mail bob.smith@example.com about the e-mail",
    "snake_case and kebab-case and 3.14",
    "Grüße aus Köln",
]
FOUND = {
    ("quick",): [0, 1],
    ("Quick",): [0, 1],
    ("quick", "dog"): [1],
    ("brown fox",): [0],
    ("fox brown",): [],
    ("example",): [2, 3],
    ("to-file",): [2],
    ("file",): [2],
    ("bob.smith",): [3],
    ("smith",): [3],
    ("e-mail",): [3],
    ("case",): [4],
    ("snake_case",): [4],
    ("14",): [4],
    ("Grüße",): [5],
    ("köln",): [5],
    ("qui",): [],
    ('"quick" OR dog',): [],
    ("!!!",): [],
    ("fox", "!!!"): [0],
}


def everything(workspace: Workspace, *phrases: str) -> Search:
    return Search(workspace.workspace_id, phrases, "@human", True, None, None, 100)


def theirs(workspace: Workspace, reader: str, *phrases: str) -> Search:
    return Search(workspace.workspace_id, phrases, reader, False, None, None, 100)


async def test_all_phrases_must_occur_as_whole_words(store: Store, workspace: Workspace) -> None:
    sent = [(await send(store, agent(workspace, "@ann"), "@bob", text)).message_id for text in TEXTS]
    for phrases, expected in FOUND.items():
        found = {message.message_id for message in await store.search(everything(workspace, *phrases))}
        assert found == {sent[number] for number in expected}, phrases


async def test_subjects_are_searched_too(store: Store, workspace: Workspace) -> None:
    sent = await send(store, agent(workspace, "@ann"), "@bob", "body", subject="The Subject")
    assert [found.message_id for found in await store.search(everything(workspace, "subject"))] == [sent.message_id]


@pytest.mark.guarantee("G-SEARCH")
async def test_a_search_misses_nothing_that_was_answered_before(store: Store, workspace: Workspace) -> None:
    async def check(number: int) -> None:
        sent = await send(store, agent(workspace, "@ann"), "@bob", f"needle{number}")
        found = await store.search(everything(workspace, f"needle{number}"))
        assert [message.message_id for message in found] == [sent.message_id]

    await asyncio.gather(*map(check, range(10)))


async def test_a_message_is_indexed_once(store: Store, workspace: Workspace) -> None:
    for _ in range(3):
        await send(store, agent(workspace, "@ann"), "@bob", "needle")
    assert sum(await asyncio.gather(store.index(), store.index())) == 3
    assert await store.index() == 0
    assert await store.read(ConsumerCursor(workspace.workspace_id, "search")) == [6]
    assert len(await store.search(everything(workspace, "needle"))) == 3


@pytest.mark.guarantee("G-VISIBLE")
async def test_readers_find_only_what_they_may_see(store: Store, workspace: Workspace) -> None:
    ann = agent(workspace, "@ann")
    thread_id = await store.submit(CreateThread(ann, new_id(), "A topic", "conversation", ("@bob",), None, None, ""))
    await send(store, ann, body="needle", thread_id=thread_id)
    assert len(await store.search(theirs(workspace, "@ann", "needle"))) == 1
    assert len(await store.search(theirs(workspace, "@bob", "needle"))) == 1
    assert len(await store.search(theirs(workspace, "@cat", "needle"))) == 0
    assert len(await store.search(theirs(workspace, "@human", "needle"))) == 0
    assert len(await store.search(everything(workspace, "needle"))) == 1
    await store.submit(RemoveMembers(ann, thread_id, new_id(), ("@bob",)))
    await send(store, ann, body="another needle", thread_id=thread_id)
    [found] = await store.search(theirs(workspace, "@bob", "needle"))
    assert found.body == "needle"  # what was sent to bob stays bob's


@pytest.mark.guarantee("G-WORKSPACE")
async def test_other_workspaces_are_not_searched(store: Store, workspace: Workspace) -> None:
    other = await open_workspace(store, "@ann", "@bob", name="other")
    await send(store, agent(workspace, "@ann"), "@bob", "needle")
    assert await store.search(everything(other, "needle")) == []
    assert await store.search(theirs(other, "@bob", "needle")) == []


async def test_a_retracted_message_is_not_found(store: Store, workspace: Workspace) -> None:
    sent = await send(store, agent(workspace, "@ann"), "@bob", "needle")
    await store.index()
    await store.submit(Retract(human(workspace), sent.message_id, None))
    assert await store.search(everything(workspace, "needle")) == []


async def test_a_search_can_be_narrowed(store: Store, workspace: Workspace) -> None:
    one = await send(store, agent(workspace, "@ann"), "@bob", "needle")
    two = await send(store, agent(workspace, "@cat"), "@bob", "needle")
    found = {}
    for name, fields in {
        "thread": (one.thread_id, None, 9),
        "sender": (None, "@cat", 9),
        "limit": (None, None, 1),
    }.items():
        found[name] = await store.search(Search(workspace.workspace_id, ("needle",), "@human", True, *fields))
    assert [message.message_id for message in found["thread"]] == [one.message_id]
    assert [message.message_id for message in found["sender"]] == [two.message_id]
    assert len(found["limit"]) == 1


@pytest.mark.parametrize("body", ["word " * 52_000, "漢" * 87_000, "".join(f"{n:x} " for n in range(50_000))])
async def test_the_largest_bodies_can_be_indexed(store: Store, workspace: Workspace, body: str) -> None:
    await send(store, agent(workspace, "@ann"), "@bob", body)
    sent = await send(store, agent(workspace, "@ann"), "@bob", "needle")
    assert [found.message_id for found in await store.search(everything(workspace, "needle"))] == [sent.message_id]
