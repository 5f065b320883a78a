"""In which of an agent's sessions its mail rings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store.bridges import Host, mark
from tests.store.builders import agent, human, send
from tests.store.places import Place
from wakeline.core.log import Workspace
from wakeline.core.observation import Injected
from wakeline.core.parcel import Absent
from wakeline.core.session import Session
from wakeline.core.store import Store
from wakeline.core.waking import Why
from wakeline.flow.attend import EndSession


@pytest.fixture
async def host(store: Store, workspace: Workspace, place: Place) -> Host:
    made = Host(store, workspace, place)
    await made.open()
    return made


async def heard(host: Host, presence: str, **said: Any) -> Session:
    """One after the other."""
    host.tick()
    return await host.beat(presence, **said)


async def rung_in(host: Host) -> str:
    """The session in which what was sent rings, and is seen."""
    await host.bell.match()
    [ring] = await host.claim()
    await host.settle(ring)
    await host.observe(Injected(ring.session.session_id, (mark(ring),), "t1", woke=True))
    return ring.session.session_id


@pytest.mark.guarantee("G-SEAT")
async def test_what_comes_next_in_a_thread_rings_where_the_last_did(host: Host) -> None:
    older, newer = await heard(host, "idle"), await heard(host, "idle", native_id="n2")
    ann = agent(host.workspace, "@ann")
    first = await send(host.store, ann, f"@bob/{older.session_id}")
    assert await rung_in(host) == older.session_id
    for _ in range(2):
        await send(host.store, ann, thread_id=first.thread_id)
        assert await rung_in(host) == older.session_id
    await send(host.store, human(host.workspace), "@bob")  # that is another thread
    assert await rung_in(host) == newer.session_id


@pytest.fixture
async def settled(store: Store, workspace: Workspace, place: Place) -> Host:
    """Its bridge has been there for so long that whoever is there has found it."""
    made = Host(store, workspace, place, lease_seconds=0)
    await made.open()
    return made


async def absent(host: Host) -> str:
    """The session in which the next ring finds nobody."""
    [ring] = await host.claim()
    await host.settle(ring, Absent())
    return ring.session.session_id


async def ringing_in(host: Host) -> list[str]:
    return [ring.session.session_id for ring in await host.claim()]


@pytest.mark.guarantee("G-SEAT")
async def test_when_nobody_is_there_a_sibling_that_was_heard_of_later_is_rung(settled: Host) -> None:
    older, gone = await heard(settled, "idle", native_id="n2"), await heard(settled, "idle", native_id="n3")
    await heard(settled, "idle", native_id="n2")
    await settled.mail()
    assert await absent(settled) == gone.session_id
    assert await ringing_in(settled) == [older.session_id]


@pytest.mark.guarantee("G-SEAT")
async def test_two_that_are_gone_do_not_pass_mail_to_and_fro(settled: Host) -> None:
    other, gone = await heard(settled, "idle", native_id="n2"), await heard(settled, "idle", native_id="n3")
    await heard(settled, "idle", native_id="n2")
    await settled.mail()
    assert await absent(settled) == gone.session_id
    assert await absent(settled) == other.session_id
    assert await ringing_in(settled) == []
    [wake] = await settled.bell.wakes(settled.row)
    assert (wake.state, wake.reason) == ("held", Why.NO_CONNECTION)


@pytest.mark.guarantee("G-SEAT")
async def test_what_was_addressed_to_a_session_waits_for_it(settled: Host) -> None:
    gone = await heard(settled, "idle", native_id="n2")
    await heard(settled, "idle")
    await send(settled.store, agent(settled.workspace, "@ann"), f"@bob/{gone.session_id}")
    await settled.bell.match()
    assert await absent(settled) == gone.session_id
    assert await ringing_in(settled) == []


async def test_who_may_be_on_the_way_to_a_bridge_that_has_begun_is_waited_for(host: Host) -> None:
    gone = await heard(host, "idle", native_id="n2")
    await heard(host, "idle")
    await host.mail()
    assert await absent(host) == gone.session_id
    assert await ringing_in(host) == []


@pytest.mark.parametrize("presence", ["active", "unknown"])
async def test_no_sibling_is_disturbed_for_one_that_is_gone(settled: Host, presence: str) -> None:
    await heard(settled, presence)
    gone = await heard(settled, "idle", native_id="n2")
    await heard(settled, presence)
    await settled.mail()
    assert await absent(settled) == gone.session_id
    assert await ringing_in(settled) == []


@pytest.mark.guarantee("G-SEAT")
async def test_when_the_session_ends_that_nobody_found_its_mail_rings_in_another_at_once(host: Host) -> None:
    """Also in one of which nothing has been heard since: it was not that one which was silent."""
    older, gone = await heard(host, "idle"), await heard(host, "idle", native_id="n2")
    await host.mail()
    assert await absent(host) == gone.session_id
    assert await ringing_in(host) == []
    await host.store.submit(EndSession(agent(host.workspace, "@bob"), gone.session_id))
    await host.plan()
    assert await ringing_in(host) == [older.session_id]


@pytest.mark.guarantee("G-SEAT")
async def test_a_session_that_comes_is_rung_at_once_for_one_that_nobody_found(settled: Host) -> None:
    gone = await heard(settled, "idle")
    await settled.mail()
    assert await absent(settled) == gone.session_id
    assert await ringing_in(settled) == []
    come = await heard(settled, "idle", native_id="n2")
    await settled.plan()
    assert await ringing_in(settled) == [come.session_id]
