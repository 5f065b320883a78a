"""In which of an agent's sessions its mail rings."""

from __future__ import annotations

import pytest

from tests.store.bridges import Host, mark
from tests.store.builders import agent, human, send
from tests.store.places import Place
from wakeline.core.log import Workspace
from wakeline.core.observation import Injected
from wakeline.core.store import Store


@pytest.fixture
async def host(store: Store, workspace: Workspace, place: Place) -> Host:
    made = Host(store, workspace, place)
    await made.open()
    return made


async def rung_in(host: Host) -> str:
    """The session in which what was sent rings, and is seen."""
    await host.bell.match()
    [ring] = await host.claim()
    await host.settle(ring)
    await host.observe(Injected(ring.session.session_id, (mark(ring),), "t1", woke=True))
    return ring.session.session_id


@pytest.mark.guarantee("G-SEAT")
async def test_what_comes_next_in_a_thread_rings_where_the_last_did(host: Host) -> None:
    older, newer = await host.beat("idle"), await host.beat("idle", native_id="n2")
    ann = agent(host.workspace, "@ann")
    first = await send(host.store, ann, f"@bob/{older.session_id}")
    assert await rung_in(host) == older.session_id
    for _ in range(2):
        await send(host.store, ann, thread_id=first.thread_id)
        assert await rung_in(host) == older.session_id
    await send(host.store, human(host.workspace), "@bob")  # that is another thread
    assert await rung_in(host) == newer.session_id
