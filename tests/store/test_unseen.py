"""Sessions that nobody can see: they count for what they last said of themselves, and that is no sight of them."""

from __future__ import annotations

import pytest

from tests.store.bridges import Host
from tests.store.places import Place
from wakeline.core.log import Workspace
from wakeline.core.observation import Gone, Still
from wakeline.core.parcel import Uncertain
from wakeline.core.session import REPEATED
from wakeline.core.store import Store
from wakeline.flow.attend import Attention


@pytest.fixture
async def host(store: Store, workspace: Workspace, place: Place) -> Host:
    """Whose waits are over at once."""
    made = Host(store, workspace, place, outstanding_seconds=0, supervisor_seconds=0)
    await made.open()
    return made


@pytest.mark.guarantee("G-BRIDGE-UNKNOWN")
async def test_what_a_session_said_before_is_no_sight_of_it_idle_when_it_is_repeated(host: Host) -> None:
    await host.mail()
    [ring] = await host.claim()
    await host.settle(ring, Uncertain("timeout", ""))
    await host.observe(Still(ring.session.session_id), attention=Attention(stale_after=0))
    await host.plan()
    assert await host.claim() == []
    await host.beat("idle")
    await host.plan()
    assert len(await host.claim()) == 1


async def test_a_session_that_nobody_can_see_counts_for_what_it_last_said(host: Host) -> None:
    said = await host.beat("active")
    assert await host.observe(Still(said.session_id))
    fresh = await host.session(said.session_id)
    assert (fresh.presence, fresh.presence_source, fresh.presence_at) == ("active", "heartbeat", said.presence_at)
    assert fresh.heartbeat_at > said.heartbeat_at
    for _ in range(2):
        before = await host.session(said.session_id)
        assert await host.observe(Still(said.session_id), attention=Attention(stale_after=0))
        after = await host.session(said.session_id)
        assert (after.presence, after.presence_source) == ("active", REPEATED)
        assert after.presence_at > before.presence_at
    assert (await host.beat("idle")).presence_source == "heartbeat"


async def test_a_session_that_ended_is_not_kept(host: Host) -> None:
    said = await host.beat("idle")
    await host.observe(Gone(said.session_id, "process_ended"))
    assert not await host.observe(Still(said.session_id))
    assert (await host.session(said.session_id)).ended_at is not None
