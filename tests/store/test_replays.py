"""A replay into a session that cannot be told just now is kept until it can: its caller heard that it goes out."""

from __future__ import annotations

import pytest

from tests.store.bridges import Host, mark
from tests.store.builders import UNGUARDED, agent, new_id
from tests.store.places import Place
from wakeline import wire
from wakeline.core.log import Workspace
from wakeline.core.observation import Gone, Injected, Noticed
from wakeline.core.parcel import Absent, Refused
from wakeline.core.session import Presence
from wakeline.core.store import Store
from wakeline.core.waking import Why
from wakeline.flow.amend import Unsubscribe
from wakeline.flow.tend import Leave
from wakeline.service import Hub
from wakeline.service.context import Context
from wakeline.service.deliveries import Deliveries
from wakeline.service.log import Logs


@pytest.fixture
async def host(store: Store, workspace: Workspace, place: Place) -> Host:
    """@bob's session has been rung for its mail, which is still unread."""
    return await rung(Host(store, workspace, place))


@pytest.fixture
async def hasty(store: Store, workspace: Workspace, place: Place) -> Host:
    """Whose waits are over at once."""
    return await rung(Host(store, workspace, place, outstanding_seconds=0, supervisor_seconds=0))


async def rung(host: Host) -> Host:
    await host.open()
    await host.mail()
    [ring] = await host.claim()
    await host.settle(ring)
    await host.observe(Injected(ring.session.session_id, (mark(ring),)))
    return host


async def resync(host: Host) -> str:
    context = Context(host.store, UNGUARDED, new_id)
    service = Deliveries(context, Logs(context, Hub(host.store)))
    bob = agent(host.workspace, "@bob")
    answer = await service.resync(bob, host.row.subscription_id, wire.Resync(since_log_id=0))
    assert (answer.events_replayed, answer.delivery_id is None) == (1, False)
    return str(answer.delivery_id)


async def told(host: Host, replay: str) -> bool:
    """Does a bridge get it now, and does its ring arrive?"""
    [ring] = await host.claim()
    assert ring.delivery.delivery_id == replay
    await host.settle(ring)
    await host.observe(Injected(ring.session.session_id, (mark(ring),)))
    return (await host.outcomes())[-1] == ("injected", "delivered")


async def steps(host: Host, replay: str) -> list[tuple[str | None, str | None]]:
    return [(row.outcome, row.reason) for row in await host.deliveries() if row.delivery_id == replay]


@pytest.mark.guarantee("G-RESYNC")
async def test_a_replay_for_a_busy_session_rings_when_it_is_idle(host: Host) -> None:
    session = await host.beat("waitingOnApproval")
    replay = await resync(host)
    for _ in range(3):  # a bridge looks every few seconds
        assert await host.claim() == []
    assert await steps(host, replay) == [(None, Why.APPROVAL)]
    await host.observe(Noticed(session.session_id, Presence.IDLE))
    assert await told(host, replay)


@pytest.mark.guarantee("G-RESYNC")
async def test_a_replay_whose_session_ends_goes_to_the_next_one(host: Host) -> None:
    session = await host.beat("idle")
    replay = await resync(host)
    await host.observe(Gone(session.session_id, "exit"))
    await host.bell.match()
    assert await steps(host, replay) == [(None, Why.NO_SESSION)]
    await host.beat("idle", native_id="n2")
    await host.bell.match()
    assert await told(host, replay)


@pytest.mark.guarantee("G-RESYNC")
async def test_a_replay_that_no_bridge_takes_up_waits_for_one(hasty: Host) -> None:
    replay = await resync(hasty)
    await hasty.store.submit(Leave(hasty.caller, hasty.bridge_id))
    assert await hasty.lapse() == 1
    assert await hasty.lapse() == 0  # not again before its time
    assert await steps(hasty, replay) == [(None, Why.NO_BRIDGE)]
    await hasty.tend()
    assert await told(hasty, replay)


@pytest.mark.parametrize("result", [Absent(), Refused(None, "held_by_human", "")])
@pytest.mark.parametrize(("seconds", "again"), [(300, 0), (0, 1)])
async def test_a_replay_that_its_session_does_not_take_is_tried_again_in_its_time(
    store: Store, workspace: Workspace, place: Place, result: Absent | Refused, seconds: int, again: int
) -> None:
    here = await rung(Host(store, workspace, place, outstanding_seconds=seconds, supervisor_seconds=seconds))
    replay = await resync(here)
    [ring] = await here.claim()
    await here.settle(ring, result)
    [(outcome, reason)] = await steps(here, replay)
    assert (outcome, reason) in [(None, Why.NO_CONNECTION), (None, Why.REFUSED)]
    assert len(await here.claim()) == again


async def test_a_replay_that_waits_keeps_no_mail_away(host: Host) -> None:
    session = await host.beat("waitingOnApproval")
    replay = await resync(host)
    assert await host.claim() == []
    await host.mail()
    assert await host.announce(session.session_id) != []
    assert await steps(host, replay) == [(None, Why.APPROVAL)]


async def test_a_replay_ends_with_its_subscription(host: Host) -> None:
    await host.beat("waitingOnApproval")
    replay = await resync(host)
    assert await host.claim() == []
    await host.store.submit(Unsubscribe(agent(host.workspace, "@bob"), host.row.subscription_id))
    assert await steps(host, replay) == [("skipped", Why.UNSUBSCRIBED)]
