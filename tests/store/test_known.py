"""What the writer remembers between batches is what the database would have told it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.store.builders import agent, coordinator, human, new_id, open_workspace, post, send
from tests.store.places import SqlitePlace
from tests.store.test_batches import Buggy, in_one_batch
from wakeline.core.ids import derived
from wakeline.core.log import Workspace
from wakeline.core.message import audience_key, parse_audience
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import PARTICIPANT, Kind
from wakeline.core.store import Command
from wakeline.core.thread import Status
from wakeline.errors import Forbidden, Internal, NotFound
from wakeline.flow.ack import AckThread
from wakeline.flow.convene import AddMembers, ChangeStatus, CreateThread, RemoveMembers
from wakeline.flow.enrol import AddPrincipal, ChangePrincipal
from wakeline.flow.permit import ChangeBlock, ChangeGrant
from wakeline.store.sqlite import facts
from wakeline.store.sqlite.connection import connect
from wakeline.store.sqlite.store import SqliteStore

HANDLES = {"@ann", "@bob", "@cat", "@dan", "@human"}
THREADS = [new_id() for _ in range(3)]
KEYS = {audience_key(parse_audience([handle], "@ann"), "@ann") for handle in ("@bob", "@cat", "@dan")}


class Look(msgspec.Struct, frozen=True):
    """Changes nothing and answers what its picture shows of everything that may be remembered."""

    workspace_id: int

    def needs(self, needs: Needs) -> None:
        needs.handles |= HANDLES
        needs.senders |= HANDLES
        needs.threads |= set(THREADS)
        needs.audience_keys |= KEYS

    def decide(self, picture: Picture) -> dict[str, Any]:
        kept = ("workspace", "principals", "threads", "thread_by_key", "members", "grants", "blocks", "buckets")
        shown = {name: getattr(picture, name) for name in kept}
        return {**shown, "order": {thread_id: picture.members_of(thread_id) for thread_id in sorted(picture.threads)}}


def history(workspace: Workspace) -> list[Command[Any]]:
    """Every command that changes what is remembered."""
    me, ann, bob = human(workspace), agent(workspace, "@ann"), agent(workspace, "@bob")
    lead = coordinator(workspace, "@cat")
    plan, work, _ = THREADS
    first = new_id()  # of a thread that gives up its address when it is closed
    return [
        CreateThread(ann, plan, "plan", "conversation", ("@cat",), None, None, ""),
        CreateThread(lead, work, "work", "workflow", ("@ann",), "@cat", None, ""),
        post(ann, thread_id=plan),
        AddMembers(lead, plan, new_id(), ("@bob",)),
        AckThread(bob, plan, 1),
        RemoveMembers(bob, plan, new_id(), ("@bob",)),
        AddMembers(lead, plan, new_id(), ("@bob",)),
        AddPrincipal(me, "@dan", Kind.AGENT, (PARTICIPANT,), None, None),
        post(ann, "@dan", message_id=first),
        post(ann, "@bob"),
        ChangeBlock(bob, "@bob", "@cat", set=True),
        ChangeBlock(bob, "@bob", "@cat", set=False),
        ChangeGrant(bob, "CAN_REPLY_TO", "@ann", "@bob", granted=True),
        ChangeGrant(bob, "CAN_REPLY_TO", "@ann", "@bob", granted=False),
        post(me, "@ann"),
        ChangeStatus(me, derived(first, "thread"), new_id(), Status.CLOSED, None, None, override=False),
        ChangeStatus(lead, plan, new_id(), Status.BLOCKED, "stuck", "@dan", override=False),
        ChangeStatus(me, plan, new_id(), Status.CLOSED, "done", None, override=True),
        ChangePrincipal(me, "@dan", ("reviewer",), "Dan", True),
    ]


async def check(place: SqlitePlace, store: SqliteStore, workspace: Workspace) -> dict[str, Any]:
    """A store that was opened only now remembers nothing."""
    look = Look(workspace.workspace_id)
    remembered = await store.submit(look)
    other = await place.open()
    assert remembered == await other.submit(look)
    await other.close()
    return remembered


async def test_what_is_remembered_is_what_the_database_says(sqlite: SqlitePlace) -> None:
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob", "@cat")
    await check(sqlite, store, workspace)  # from here on it remembers what is not there, too
    for command in history(workspace):
        await store.submit(command)
        await check(sqlite, store, workspace)
        sqlite.now += 1


async def test_a_whole_history_in_one_batch_is_remembered_as_well(sqlite: SqlitePlace) -> None:
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob", "@cat")
    await check(sqlite, store, workspace)
    outcomes = await in_one_batch(store, history(workspace))
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    await check(sqlite, store, workspace)


async def test_an_address_that_a_closed_thread_gave_up_opens_a_fresh_one(sqlite: SqlitePlace) -> None:
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    ann = agent(workspace, "@ann")
    first = await send(store, ann, "@bob")
    await store.submit(
        ChangeStatus(human(workspace), first.thread_id, new_id(), Status.CLOSED, None, None, override=False)
    )
    second = await send(store, ann, "@bob")
    assert (second.seq, second.thread_id != first.thread_id) == (1, True)


async def test_nothing_of_a_failed_batch_is_remembered(sqlite: SqlitePlace, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "wakeline")
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob", "@cat")
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    commands: list[Command[Any]] = [
        ChangeBlock(bob, "@bob", "@cat", set=True),
        Buggy(post(ann, "@bob")),
        post(agent(workspace, "@cat"), "@bob"),
    ]
    blocked, buggy, refused = await in_one_batch(store, commands)
    assert isinstance(buggy, Internal)
    assert isinstance(refused, Forbidden)
    assert blocked.blocker == "@bob"
    await check(sqlite, store, workspace)


@pytest.mark.parametrize("posts", [1, 3])
async def test_what_another_program_changed_is_noticed(sqlite: SqlitePlace, posts: int) -> None:
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob")
    ann = agent(workspace, "@ann")
    await send(store, ann, "@bob")
    other = connect(sqlite.file)
    other.execute("UPDATE principals SET retired_at = 1 WHERE handle = '@bob'")
    other.close()
    outcomes = await in_one_batch(store, [post(ann, "@bob") for _ in range(posts)])
    assert [type(outcome) for outcome in outcomes] == [NotFound] * posts
    await check(sqlite, store, workspace)


async def test_what_is_remembered_is_bounded(sqlite: SqlitePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "MAX_LEARNED", 10)
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob", "@cat")
    for command in history(workspace):
        await store.submit(command)
    await check(sqlite, store, workspace)
