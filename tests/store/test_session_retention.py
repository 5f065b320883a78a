"""Sessions that ended long ago are forgotten, unless somebody still needs to know of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.store.bridges import Host
from tests.store.builders import HOUR, agent, new_id, open_workspace, send
from tests.store.places import Place
from tests.store.subscribing import PutSession, session
from wakeline.core.activation import Activation
from wakeline.core.log import Workspace
from wakeline.core.picture import Needs, Picture
from wakeline.core.queries import SessionList
from wakeline.core.session import Session
from wakeline.core.store import Store
from wakeline.flow.ack import AckMessages

LONG_AGO = 1_000
replace = msgspec.structs.replace


class PutActivation(msgspec.Struct, frozen=True):
    """An attempt as an activator would have made it."""

    row: Activation

    @property
    def workspace_id(self) -> int:
        return self.row.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.row.handle)

    def decide(self, picture: Picture) -> None:
        picture.put_activation(self.row)


async def put(store: Store, workspace: Workspace, handle: str = "@bob", **fields: Any) -> Session:
    row = session(agent(workspace, handle), **{"ended_at": LONG_AGO, **fields})
    await store.submit(PutSession(row))
    return row


async def forget(store: Store, workspace: Workspace) -> int:
    return await store.forget_sessions(workspace.workspace_id, ended_before=await store.now() - HOUR)


async def ids(store: Store, workspace: Workspace, handle: str = "@bob") -> list[str]:
    rows: list[Session] = await store.read(SessionList(workspace.workspace_id, handle, 1, 0, 100))
    return [row.session_id for row in rows]


async def test_sessions_that_ended_long_ago_are_forgotten(store: Store, workspace: Workspace) -> None:
    other = await open_workspace(store, "@bob", name="other")
    await put(store, workspace)
    await put(store, workspace, ended_at=LONG_AGO + 1)
    elsewhere = [await put(store, other), await put(store, other)]
    fresh = await put(store, workspace, ended_at=await store.now())
    running = await put(store, workspace, ended_at=None, heartbeat_at=5)
    assert await forget(store, workspace) == 2
    assert await ids(store, workspace) == [running.session_id, fresh.session_id]
    assert sorted(await ids(store, other)) == [row.session_id for row in elsewhere]
    assert await forget(store, workspace) == 0


async def test_an_agents_newest_session_stays_and_the_newest_that_can_be_resumed(
    store: Store, workspace: Workspace
) -> None:
    able: dict[str, Any] = {"resumable": 1, "host": "h"}
    await put(store, workspace, heartbeat_at=1, native_id="n1", **able)
    resumable = await put(store, workspace, heartbeat_at=2, native_id="n2", **able)
    await put(store, workspace, heartbeat_at=3)
    nameless = await put(store, workspace, heartbeat_at=4, **able)
    newest = await put(store, workspace, heartbeat_at=5)
    assert await forget(store, workspace) == 2
    assert await ids(store, workspace) == [newest.session_id, nameless.session_id, resumable.session_id]


@pytest.mark.guarantee("G-RETENTION")
async def test_a_session_that_a_ring_under_way_refers_to_stays(
    store: Store, workspace: Workspace, place: Place
) -> None:
    host = Host(store, workspace, place)
    await host.open()
    message_id = await host.mail()
    [ring] = await host.claim()
    await store.submit(PutSession(replace(ring.session, ended_at=LONG_AGO, heartbeat_at=1)))
    await put(store, workspace, heartbeat_at=2)
    assert await forget(store, workspace) == 0
    await store.submit(AckMessages(agent(workspace, "@bob"), (message_id,)))
    await host.settle(ring)
    assert [outcome for _, outcome in await host.outcomes()] == ["delivered"]
    assert await forget(store, workspace) == 1


@pytest.mark.guarantee("G-RETENTION")
async def test_a_session_that_a_wake_waits_for_stays(store: Store, workspace: Workspace, place: Place) -> None:
    host = Host(store, workspace, place)
    await host.open()
    addressed = await put(store, workspace, ended_at=None, heartbeat_at=1)
    sent = await send(store, agent(workspace, "@ann"), f"@bob/{addressed.session_id}")
    await store.submit(PutSession(replace(addressed, ended_at=LONG_AGO)))
    await host.bell.match()
    [wake] = await host.bell.wakes(host.row)
    assert (wake.session_id, wake.addressed) == (addressed.session_id, 1)
    assert await forget(store, workspace) == 0
    await store.submit(AckMessages(agent(workspace, "@bob"), (sent.message_id,)))
    await host.plan()
    assert await host.bell.wakes(host.row) == []
    assert await forget(store, workspace) == 1


@pytest.mark.guarantee("G-RETENTION")
async def test_a_session_that_an_activation_continues_stays(store: Store, workspace: Workspace) -> None:
    old = await put(store, workspace, heartbeat_at=1)
    await put(store, workspace, heartbeat_at=2)
    row = Activation(
        new_id(), workspace.workspace_id, "@bob", "resume", old.session_id, "h", None, None, 1, 1, None, None,
        None, None, 0, None, None, None, None, None, 1,
    )  # fmt: skip
    await store.submit(PutActivation(row))
    assert await forget(store, workspace) == 0
    await store.submit(PutActivation(replace(row, result="failed", settled_at=2)))
    assert await forget(store, workspace) == 1


async def test_a_session_that_comes_back_after_it_was_forgotten_is_registered_anew(
    store: Store, workspace: Workspace, place: Place
) -> None:
    host = Host(store, workspace, place)
    await host.open()
    first = await host.beat("idle")
    await store.submit(PutSession(replace(first, ended_at=LONG_AGO, heartbeat_at=1)))
    await put(store, workspace, heartbeat_at=2)
    assert await forget(store, workspace) == 1
    again = await host.beat("idle")
    assert (again.session_id, again.ended_at) == (first.session_id, None)
