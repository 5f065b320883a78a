"""What a lane decides from memory is what it would have decided after a load, whoever wrote meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.store.builders import agent, human, new_id, open_workspace, post, send, unread
from tests.store.places import PostgresPlace
from tests.store.test_known import Look, history
from wakeline.core.log import Workspace
from wakeline.core.picture import Needs, Picture
from wakeline.core.store import Command
from wakeline.core.thread import Status
from wakeline.errors import Unauthorized, WakelineError
from wakeline.flow.convene import ChangeStatus
from wakeline.flow.enrol import ChangePrincipal
from wakeline.flow.permit import ChangeBlock
from wakeline.flow.post import Accepted
from wakeline.store.postgres import memory
from wakeline.store.postgres.connection import Connection, Links, Server
from wakeline.store.postgres.store import PostgresStore
from wakeline.store.postgres.writer import Lane


class Watched:
    """One lane, and every query that it makes."""

    def __init__(self, url: str, workspace: Workspace) -> None:
        self._url = url
        self.queries: list[str] = []
        self.links = Links(self._connect, 1, lambda: 0.0)
        self.lane = Lane(workspace.workspace_id, self.links, lambda _workspace_id, _log_id: None)

    async def _connect(self) -> Connection:
        connection = await Server.parse(self._url).connect("writer", by_key=True)
        connection.add_query_logger(lambda query: self.queries.append(query.query))
        return connection

    async def submit(self, command: Command[Any]) -> Any:
        self.queries.clear()
        answer = await self.lane.put(command)
        if self.lane.task is not None:
            await self.lane.task  # it learns after it has answered
        return answer


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, memory is fresh."""
    monkeypatch.setattr(memory, "FRESH_SECONDS", 3600)


@pytest.fixture
async def node(postgres: PostgresPlace) -> PostgresStore:
    return await postgres.open()


@pytest.fixture
async def workspace(node: PostgresStore) -> Workspace:
    return await open_workspace(node, "@ann", "@bob", "@cat")


@pytest.fixture
async def watched(postgres: PostgresPlace, workspace: Workspace) -> AsyncIterator[Watched]:
    watched = Watched(postgres.url, workspace)
    yield watched
    await watched.links.close()


async def test_memory_tells_what_a_load_would(watched: Watched, workspace: Workspace) -> None:
    look, needs = Look(workspace.workspace_id), Needs()
    look.needs(needs)
    await watched.submit(look)
    for command in history(workspace):
        await watched.submit(command)
        recalled = watched.lane.memory.recall(needs)
        assert recalled is not None
        remembered, loaded = look.decide(Picture(recalled)), await watched.submit(look)
        for shown in (remembered, loaded):
            shown["order"] = {thread_id: sorted(handles) for thread_id, handles in shown["order"].items()}
        assert remembered == loaded


async def test_what_would_write_nothing_is_loaded(watched: Watched, workspace: Workspace) -> None:
    look = Look(workspace.workspace_id)
    for _ in range(2):
        await watched.submit(look)
        assert len(watched.queries) == 1
        assert watched.queries[0].startswith("WITH\nplan_subscriptions")


async def test_the_clock_is_read_again_before_long(
    watched: Watched, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = agent(workspace, "@ann")
    await watched.submit(post(ann, "@bob"))
    await watched.submit(post(ann, "@bob"))
    assert len(watched.queries) == 1
    monkeypatch.setattr(memory, "FRESH_SECONDS", 0)
    await watched.submit(post(ann, "@bob"))
    assert len(watched.queries) == 2


async def outcome(watched: Watched, command: Command[Any]) -> str:
    try:
        await watched.submit(command)
    except WakelineError as error:
        return error.code
    return "accepted"


@pytest.mark.guarantee("G-LOG-ORDER")
async def test_what_another_node_changed_is_heeded_at_once(
    node: PostgresStore, watched: Watched, workspace: Workspace
) -> None:
    ann, bob, me = agent(workspace, "@ann"), agent(workspace, "@bob"), human(workspace)

    async def said() -> str:
        return await outcome(watched, post(ann, "@bob"))

    first: Accepted = await watched.submit(post(ann, "@bob"))
    assert await said() == "accepted"
    await node.submit(ChangeBlock(bob, "@bob", "@ann", set=True))
    assert await said() == "BLOCKED"
    await node.submit(ChangeBlock(bob, "@bob", "@ann", set=False))
    assert await said() == "accepted"
    await node.submit(ChangeStatus(me, first.thread_id, new_id(), Status.CLOSED, None, None, override=False))
    assert await said() == "accepted"  # in a new thread
    with pytest.raises(WakelineError, match="closed"):
        await watched.submit(post(ann, thread_id=first.thread_id))
    await node.submit(ChangePrincipal(me, "@bob", None, None, True))
    assert await said() == "RECIPIENT_UNKNOWN"
    with pytest.raises(Unauthorized):
        await watched.submit(post(bob, "@ann"))


@pytest.mark.guarantee("G-LOG-ORDER")
async def test_two_nodes_that_take_turns_leave_no_gap(
    node: PostgresStore, watched: Watched, workspace: Workspace
) -> None:
    ann = agent(workspace, "@ann")
    ids = []
    for _ in range(5):
        ids += [(await watched.submit(post(ann, "@bob"))).log_id, (await send(node, ann, "@bob")).log_id]
    assert ids == list(range(ids[0], ids[0] + 10))
    assert await unread(node, agent(workspace, "@bob")) == 10
