"""Group commit: many commands in one transaction, each with an outcome of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.store.builders import agent, human, inbox, log_of, new_id, open_workspace, post, send, unread
from tests.store.places import Place
from wakeline.core.log import Workspace
from wakeline.core.picture import Needs, Picture
from wakeline.core.queries import AllWorkspaces, ThreadFor, TokenFor
from wakeline.core.records import Token
from wakeline.core.store import Command, Store
from wakeline.errors import Conflict, Forbidden, Internal, InvalidArgument, NotFound, Unavailable
from wakeline.flow.convene import CreateThread
from wakeline.flow.enrol import IssueToken
from wakeline.flow.post import Accepted, Post


class Pause(msgspec.Struct, frozen=True):
    """Holds up a writer that has a thread of its own until it is told to go on."""

    workspace_id: int
    entered: threading.Event = msgspec.field(default_factory=threading.Event)
    go_on: threading.Event = msgspec.field(default_factory=threading.Event)

    def needs(self, needs: Needs) -> None:
        pass

    def decide(self, picture: Picture) -> None:
        self.entered.set()
        if threading.current_thread() is not threading.main_thread():
            self.go_on.wait()


async def in_one_batch(store: Store, commands: Sequence[Command[Any]]) -> list[Any]:
    """The outcomes of commands that were all waiting when the writer took its next batch."""
    pause = Pause(commands[0].workspace_id)
    pausing = asyncio.ensure_future(store.submit(pause))
    await asyncio.to_thread(pause.entered.wait)
    waiting = [asyncio.ensure_future(store.submit(command)) for command in commands]
    await asyncio.sleep(0)
    pause.go_on.set()
    await pausing
    return await asyncio.gather(*waiting, return_exceptions=True)


class Buggy(msgspec.Struct, frozen=True):
    """A decision that has put half of its rows when its bug strikes."""

    post: Post

    @property
    def workspace_id(self) -> int:
        return self.post.workspace_id

    def needs(self, needs: Needs) -> None:
        self.post.needs(needs)

    def decide(self, picture: Picture) -> None:
        self.post.decide(picture)
        raise AttributeError("a bug")


def odd(command: Post) -> Post:
    """A post that every decision lets through and that the schema refuses."""
    return msgspec.structs.replace(command, message=msgspec.structs.replace(command.message, kind="gossip"))


async def test_the_same_key_twice_at_once_is_applied_once(store: Store, workspace: Workspace) -> None:
    def posts() -> list[Post]:
        return [post(agent(workspace, "@ann"), "@bob", idempotency_key="k") for _ in range(2)]

    first, second = await asyncio.gather(*map(store.submit, posts()))
    third, fourth = await in_one_batch(store, posts())
    assert first == second == third == fourth
    assert await unread(store, agent(workspace, "@bob")) == 1


@pytest.mark.guarantee("G-ONCE")
async def test_the_same_key_twice_in_one_batch_is_applied_once(store: Store, workspace: Workspace) -> None:
    outcomes = await in_one_batch(
        store, [post(agent(workspace, "@ann"), "@bob", idempotency_key="k") for _ in range(5)]
    )
    assert outcomes == [outcomes[0]] * 5
    assert isinstance(outcomes[0], Accepted)
    assert await unread(store, agent(workspace, "@bob")) == 1


@pytest.mark.guarantee("G-ONCE")
@pytest.mark.parametrize("at_once", [True, False], ids=["in one batch", "one after the other"])
async def test_a_key_with_another_payload_is_a_conflict(store: Store, workspace: Workspace, *, at_once: bool) -> None:
    posts = [post(agent(workspace, "@ann"), "@bob", body, idempotency_key="k") for body in ("one", "two")]
    if at_once:
        first, second = await in_one_batch(store, posts)
    else:
        [first] = await in_one_batch(store, posts[:1])
        [second] = await in_one_batch(store, posts[1:])
    assert isinstance(first, Accepted)
    assert isinstance(second, Conflict)
    assert second.code == "IDEMPOTENCY_CONFLICT"
    assert [found.message.body for found in await inbox(store, agent(workspace, "@bob"))] == ["one"]


async def test_keys_of_other_senders_and_operations_are_others(store: Store, workspace: Workspace) -> None:
    ann, cat = agent(workspace, "@ann"), agent(workspace, "@cat")
    first = await send(store, ann, "@bob", idempotency_key="k")
    second = await send(store, cat, "@bob", idempotency_key="k")
    thread = CreateThread(ann, new_id(), "A topic", "conversation", (), None, "k", "d")
    assert first.message_id != second.message_id
    assert await store.submit(thread) == await store.submit(thread) == thread.thread_id


@pytest.mark.guarantee("G-ONCE")
async def test_an_answer_is_repeated_from_disk(place: Place) -> None:
    store = await place.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    first = await send(store, agent(workspace, "@ann"), "@bob", idempotency_key="k")
    await place.close()
    assert await send(await place.open(), agent(workspace, "@ann"), "@bob", idempotency_key="k") == first
    await place.close()


async def test_commands_of_a_batch_see_what_the_ones_before_did(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    question = post(ann, "@bob", "well?")
    outcomes = await in_one_batch(
        store,
        [question, post(bob, body="yes", in_reply_to=question.message.message_id), post(ann, "@bob", "thanks")],
    )
    assert [outcome.seq for outcome in outcomes] == [1, 2, 3]
    assert len({outcome.thread_id for outcome in outcomes}) == 1
    assert await unread(store, bob) == 2


@pytest.mark.guarantee("G-ALONE")
async def test_a_refusal_hurts_nobody_else_in_its_batch(store: Store, workspace: Workspace) -> None:
    ann = agent(workspace, "@ann")
    before = (await log_of(store, workspace))[-1].log.log_id
    commands = [post(ann, to) for to in ("@bob", "@nobody", "@bob")] + [post(ann, "@bob", tags=["system"])]
    good, unknown, also_good, forbidden = await in_one_batch(store, commands)
    assert isinstance(unknown, NotFound)
    assert isinstance(forbidden, Forbidden)
    assert (good.seq, also_good.seq, also_good.log_id) == (1, 2, before + 2)


@pytest.mark.guarantee("G-ALONE")
@pytest.mark.parametrize("kind", ["a decision's bug", "a row that the schema refuses"])
async def test_a_failure_hurts_only_the_guilty_command(
    store: Store, workspace: Workspace, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level(logging.CRITICAL, "wakeline")
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    before = (await log_of(store, workspace))[-1].log.log_id
    bad: Command[Any] = Buggy(post(ann, "@bob", "bad")) if kind == "a decision's bug" else odd(post(ann, "@bob", "bad"))
    outcomes = await in_one_batch(store, [post(ann, "@bob", "one"), bad, post(ann, "@bob", "two")])
    assert [type(outcome) for outcome in outcomes] == [Accepted, Internal, Accepted]
    assert [found.message.body for found in await inbox(store, bob)] == ["one", "two"]
    assert [entry.log.log_id for entry in await log_of(store, workspace, before)] == [before + 1, before + 2]
    assert (await send(store, ann, "@bob", "three")).seq == 3


async def test_a_text_that_the_database_cannot_hold_hurts_only_its_command(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    outcomes = await in_one_batch(store, [post(ann, "@bob", body) for body in ("one", "nul \0", "two")])
    assert [type(outcome) for outcome in outcomes[::2]] == [Accepted, Accepted]
    assert isinstance(outcomes[1], Accepted | InvalidArgument)
    assert [found.message.body for found in await inbox(store, bob)][-1] == "two"


async def test_a_command_for_a_workspace_that_is_not_there_fails_alone(
    store: Store, workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "wakeline")
    nowhere = msgspec.structs.replace(workspace, workspace_id=4711)
    here, there = await asyncio.gather(
        *(store.submit(post(agent(where, "@ann"), "@bob")) for where in (workspace, nowhere)), return_exceptions=True
    )
    assert isinstance(here, Accepted)
    assert isinstance(there, NotFound | Internal)


async def test_workspaces_are_written_side_by_side(store: Store, workspace: Workspace) -> None:
    others = [await open_workspace(store, "@ann", "@bob", name=f"w{n}") for n in range(3)]
    everywhere = [workspace, *others]
    await asyncio.gather(*(send(store, agent(where, "@ann"), "@bob") for where in everywhere for _ in range(10)))
    for where in await store.read(AllWorkspaces()):
        entries = await log_of(store, where)
        assert [entry.log.log_id for entry in entries] == list(range(1, where.last_log_id + 1))
        assert await unread(store, agent(where, "@bob")) == 10


@pytest.mark.guarantee("G-ANSWERED-IS-VISIBLE")
async def test_an_answer_means_that_every_reader_sees_it(store: Store, workspace: Workspace) -> None:
    async def check(sender: str) -> None:
        for _ in range(10):
            answer = await send(store, agent(workspace, sender), "@bob")
            [seen] = await store.read(ThreadFor(workspace.workspace_id, answer.thread_id, "@bob"))
            assert seen.thread.last_seq >= answer.seq
            assert (await log_of(store, workspace, answer.log_id - 1))[0].log.log_id == answer.log_id

    await asyncio.gather(check("@ann"), check("@cat"), check("@bob"))


async def test_many_tables_change_in_one_batch(store: Store, workspace: Workspace) -> None:
    me, ann = human(workspace), agent(workspace, "@ann")
    token = Token("j1", workspace.workspace_id, "@ann", "participant", None, None, 1, "@human", 2)
    outcomes = await in_one_batch(
        store,
        [
            IssueToken(me, token),
            post(ann, "@bob"),
            CreateThread(ann, new_id(), "A topic", "incident", ("@cat",), None, None, ""),
            post(ann, "@bob", tags=["override"]),
        ],
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["Token", "Accepted", "str", "Forbidden"]
    assert await store.read(TokenFor("j1")) == [token]


@pytest.mark.guarantee("G-ALONE")
async def test_a_caller_who_goes_away_changes_nothing_for_the_others(store: Store, workspace: Workspace) -> None:
    going = asyncio.create_task(send(store, agent(workspace, "@ann"), "@bob", "going"))
    staying = asyncio.create_task(send(store, agent(workspace, "@ann"), "@bob", "staying"))
    await asyncio.sleep(0)
    going.cancel()
    assert (await staying).seq == 2
    assert await unread(store, agent(workspace, "@bob")) == 2


async def test_closing_finishes_what_was_accepted_and_refuses_what_comes_later(place: Place) -> None:
    store = await place.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    writing = [asyncio.create_task(send(store, agent(workspace, "@ann"), "@bob")) for _ in range(20)]
    await asyncio.sleep(0)
    await place.close()
    assert sorted([(await task).seq for task in writing]) == list(range(1, 21))
    with pytest.raises(Unavailable) as refused:
        await send(store, agent(workspace, "@ann"), "@bob")
    assert refused.value.code == "SHUTTING_DOWN"
