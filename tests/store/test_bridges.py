"""Rings inside sessions: claimed under a lease, settled under a fence, and believed only with evidence."""

from __future__ import annotations

import json

import pytest

from tests.store.bells import stored
from tests.store.bridges import HOST, Host, mark
from tests.store.builders import agent, bridge, send
from tests.store.places import Place
from wakeline.core.delivery import DeliveryStep
from wakeline.core.instant import SECOND
from wakeline.core.log import UNWANTED, Workspace
from wakeline.core.observation import LAST_LENGTH, Gone, Injected, Noticed, Processed, TurnStatus, Withdrawn
from wakeline.core.parcel import Absent, Failed, Refused, Uncertain
from wakeline.core.queries import HostLog
from wakeline.core.session import Presence
from wakeline.core.store import Store
from wakeline.core.wake_queries import DeliverySteps
from wakeline.core.waking import Why
from wakeline.errors import Conflict, Forbidden
from wakeline.flow.ack import AckMessages
from wakeline.flow.tend import Leave


@pytest.fixture
async def host(store: Store, workspace: Workspace, place: Place) -> Host:
    made = Host(store, workspace, place)
    await made.open()
    return made


@pytest.fixture
async def hasty(store: Store, workspace: Workspace, place: Place) -> Host:
    """Whose waits are over at once."""
    rules = {"outstanding_seconds": 0, "repoke_seconds": 0, "repoke_limit": 1, "supervisor_seconds": 0}
    made = Host(store, workspace, place, **rules)
    await made.open()
    return made


@pytest.fixture
async def impatient(store: Store, workspace: Workspace, place: Place) -> Host:
    """Who looks again at once at what failed, and after long at all else."""
    made = Host(store, workspace, place, supervisor_seconds=0, repoke_seconds=900, repoke_limit=2)
    await made.open()
    return made


async def reasons(host: Host) -> list[tuple[str, str | None]]:
    return [(wake.state, wake.reason) for wake in await host.bell.wakes(host.row)]


async def ack(host: Host, message_id: str) -> None:
    await host.store.submit(AckMessages(agent(host.workspace, "@bob"), (message_id,)))
    await host.bell.match()


# -- the lease on the host --------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-BRIDGE-ONE")
async def test_a_second_bridge_for_a_host_is_refused_while_the_first_is_there(host: Host) -> None:
    with pytest.raises(Conflict, match="Another bridge"):
        await host.tend(bridge_id="bridge-h2")
    with pytest.raises(Conflict, match="Another bridge"):
        await host.claim(bridge_id="bridge-h2")
    await host.store.submit(Leave(host.caller, host.bridge_id))
    assert await host.tend(bridge_id="bridge-h2")
    with pytest.raises(Conflict):
        await host.claim()


async def test_a_bridge_that_does_not_attend_claims_and_reports_nothing(host: Host) -> None:
    session = await host.beat("idle")
    await host.mail()
    await host.store.submit(Leave(host.caller, host.bridge_id))
    with pytest.raises(Conflict):
        await host.claim()
    with pytest.raises(Conflict):
        await host.observe(Noticed(session.session_id, Presence.ACTIVE))


async def test_nothing_is_planned_for_a_host_without_a_bridge(host: Host) -> None:
    await host.store.submit(Leave(host.caller, host.bridge_id))
    await host.mail()
    assert (await reasons(host), await host.deliveries()) == ([("held", Why.NO_BRIDGE)], [])
    await host.tend()
    await host.plan()
    assert len(await host.claim()) == 1


async def test_only_a_bridge_does_what_bridges_do(host: Host) -> None:
    with pytest.raises(Forbidden):
        await host.tend(caller=agent(host.workspace, "@bob"))


async def test_a_bridge_has_no_part_in_the_sessions_of_another_host(host: Host) -> None:
    session = await host.beat("idle")
    await host.mail()
    await host.tend(caller=bridge(host.workspace, "elsewhere"), bridge_id="bridge-e1")
    assert await host.claim(host="elsewhere", bridge_id="bridge-e1") == []
    seen = Noticed(session.session_id, Presence.WAITING_ON_APPROVAL)
    assert not await host.observe(seen, host="elsewhere", bridge_id="bridge-e1")
    assert len(await host.claim()) == 1


# -- the ladder -------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-BRIDGE-LADDER")
async def test_acceptance_is_only_triggered_and_the_mark_in_a_prompt_delivers(host: Host) -> None:
    await host.mail()
    [ring] = await host.claim()
    await host.settle(ring)
    assert await host.outcomes() == [("triggered", None)]
    await host.observe(Injected(ring.session.session_id, (mark(ring),), "t1", woke=True))
    assert await host.outcomes() == [("injected", "delivered")]
    await host.observe(Processed(ring.session.session_id, (mark(ring),), "t1"))
    assert await host.outcomes() == [("processed", "delivered")]
    assert await host.ladder(ring) == ["queued", "attempt", "triggered", "woke", "injected", "processed"]


@pytest.mark.guarantee("G-BRIDGE-LADDER")
async def test_a_step_is_never_taken_back(host: Host) -> None:
    await host.mail()
    [ring] = await host.claim()
    await host.observe(Processed(ring.session.session_id, (mark(ring),), "t1"))
    await host.observe(Injected(ring.session.session_id, (mark(ring),), "t1", woke=True))
    assert (await host.settle(ring)).stale
    assert await host.outcomes() == [("processed", "delivered")]


async def test_the_end_of_a_turn_is_kept_with_the_last_answer_bounded_and_on_one_line(host: Host) -> None:
    await host.mail()
    [ring] = await host.claim()
    await host.settle(ring)
    said = "done\x00\n\u202e" + "x" * 900
    await host.observe(Processed(ring.session.session_id, (mark(ring),), "t1", last=said))
    steps: list[DeliveryStep] = await host.store.read(DeliverySteps(ring.delivery.delivery_id))
    last = json.loads(steps[-1].detail or "{}")["last"]
    assert (last[:6], last[-1], len(last)) == ("done x", "…", LAST_LENGTH)


async def test_an_interrupted_turn_is_evidence_but_no_step(host: Host) -> None:
    await host.mail()
    [ring] = await host.claim()
    await host.settle(ring)
    await host.observe(Processed(ring.session.session_id, (mark(ring),), "t1", "interrupted"))
    assert await host.outcomes() == [("injected", "delivered")]
    assert (await host.ladder(ring))[-1] == "interrupted"


async def test_an_answer_is_the_last_step(host: Host) -> None:
    message_id = await host.mail()
    [ring] = await host.claim()
    await host.settle(ring)
    await host.observe(Injected(ring.session.session_id, (mark(ring),)))
    await send(host.store, agent(host.workspace, "@bob"), "@ann", in_reply_to=message_id)
    await host.bell.match()
    assert await host.outcomes() == [("replied", "delivered")]


async def test_a_mark_of_another_session_proves_nothing(host: Host) -> None:
    await host.mail()
    [ring] = await host.claim()
    await host.settle(ring)
    other = await host.beat("idle", native_id="n2")
    await host.observe(Injected(other.session_id, (mark(ring),)))
    assert await host.outcomes() == [("triggered", None)]


@pytest.mark.guarantee("G-BRIDGE-OUTSTANDING")
async def test_a_session_is_rung_once_until_its_ring_arrived(host: Host) -> None:
    for _ in range(3):
        await host.mail()
    [ring] = await host.claim()
    assert await host.claim() == []
    await host.settle(ring)
    await host.plan()
    assert await host.claim() == []
    await host.observe(Injected(ring.session.session_id, (mark(ring),)))
    assert len(await host.claim()) == 1


async def test_reading_the_mail_ends_its_ring(host: Host) -> None:
    message_id = await host.mail()
    [ring] = await host.claim()
    await host.settle(ring)
    await ack(host, message_id)
    assert await host.outcomes() == [("triggered", "delivered")]


QUEUING = {"capabilities": ["queue_when_active"]}


@pytest.mark.guarantee("G-CODEX-WITHDRAWN")
async def test_the_bridge_of_a_session_that_queues_is_told_what_nobody_needs_any_more(host: Host) -> None:
    await host.beat("active", **QUEUING)
    message_id = await host.mail()
    [ring] = await host.claim()
    await host.settle(ring)
    await ack(host, message_id)
    told = {"session_id": ring.session.session_id, "mark": mark(ring)}
    assert await unwanted(host) == [(ring.delivery.delivery_id, told)]
    await host.observe(Withdrawn(ring.session.session_id, (mark(ring),)))
    assert (await host.ladder(ring))[-2:] == ["triggered", "withdrawn"]
    [delivery] = await host.deliveries()
    assert (delivery.step, delivery.outcome, delivery.reason) == ("triggered", "delivered", Why.READ)


@pytest.mark.guarantee("G-CODEX-WITHDRAWN")
async def test_nobody_is_told_of_what_cannot_wait_in_a_queue(host: Host) -> None:
    await host.beat("active", **QUEUING)
    read_before, shown = await host.mail(), await host.mail()
    await ack(host, read_before)  # it was not rung yet
    [ring] = await host.claim()
    await host.settle(ring)
    await host.observe(Injected(ring.session.session_id, (mark(ring),)))
    await ack(host, shown)
    await host.beat("idle", capabilities=[])  # and of a harness that does not queue
    message_id = await host.mail()
    [ring] = await host.claim()
    await host.settle(ring)
    await ack(host, message_id)
    assert await unwanted(host) == []


async def unwanted(host: Host) -> list[tuple[str | None, dict[str, str]]]:
    rows = await host.store.read(HostLog(host.workspace.workspace_id, 0, 2**60, HOST, 100))
    return [(row.log.subject, json.loads(row.log.data or "{}")) for row in rows if row.log.kind == UNWANTED]


async def test_what_was_read_before_it_was_claimed_does_not_ring(host: Host) -> None:
    message_id = await host.mail()
    await host.store.submit(AckMessages(agent(host.workspace, "@bob"), (message_id,)))
    assert await host.claim() == []
    assert await host.outcomes() == [("queued", "skipped")]


async def test_presence_is_looked_at_once_more_before_ringing(host: Host) -> None:
    await host.mail()
    session = await host.beat("waitingOnApproval")
    assert await host.claim() == []
    assert await reasons(host) == [("held", Why.APPROVAL)]
    await host.observe(Noticed(session.session_id, Presence.IDLE))
    await host.bell.match()
    assert len(await host.claim()) == 1


async def test_a_session_that_ends_takes_no_ring_with_it(host: Host) -> None:
    await host.mail()
    session = await host.beat("idle")
    await host.observe(Gone(session.session_id, "exit"))
    await host.bell.match()
    assert await host.outcomes() == [("queued", "skipped")]
    assert await reasons(host) == [("held", Why.NO_SESSION)]
    await host.beat("idle")
    await host.bell.match()
    assert len(await host.claim()) == 1


# -- what did not arrive ----------------------------------------------------------------------------------------------


async def test_a_stale_fence_settles_nothing(host: Host) -> None:
    await host.mail()
    [ring] = await host.claim()
    assert (await host.settle(ring, fence=ring.delivery.fence - 1)).stale
    assert await host.outcomes() == [("queued", None)]
    assert not (await host.settle(ring)).stale
    assert (await host.settle(ring)).stale


@pytest.mark.parametrize(
    ("result", "outcome", "why"),
    [
        (Absent(), "skipped", Why.NO_CONNECTION),
        (Refused(None, "held_by_human", ""), "skipped", Why.REFUSED),
        (Failed("broken_pipe", ""), "failed", Why.FAILED),
    ],
)
async def test_what_was_not_rung_stays_due(
    host: Host, result: Absent | Refused | Failed, outcome: str, why: Why
) -> None:
    await host.mail()
    [ring] = await host.claim()
    await host.settle(ring, result)
    assert await host.outcomes() == [("queued", outcome)]
    [wake] = await host.bell.wakes(host.row)
    assert (wake.state, wake.reason, wake.until is not None) == ("held", why, True)


async def test_a_session_that_is_heard_of_while_nobody_finds_it_is_rung_at_once(host: Host) -> None:
    await host.mail()
    [ring] = await host.claim()
    await host.observe(Noticed(ring.session.session_id, Presence.IDLE, None, "test"))  # it sits down just then
    await host.settle(ring, Absent())
    assert len(await host.claim()) == 1


async def test_who_was_just_heard_of_is_looked_for_again_soon(host: Host) -> None:
    """A companion that met a bridge before it rang may be seated a moment after the ring."""
    await host.beat("idle")
    await host.mail()
    [ring] = await host.claim()
    await host.settle(ring, Absent())
    [wake] = await host.bell.wakes(host.row)
    assert wake.until is not None
    assert wake.until - wake.updated_at < 2 * host.bell.rules.supervisor_seconds * SECOND


@pytest.mark.guarantee("G-BRIDGE-UNKNOWN")
@pytest.mark.parametrize("result", [Absent(), Refused(None, "held_by_human", ""), Failed("broken_pipe", "")])
async def test_what_was_not_rung_is_not_counted_as_a_ring(hasty: Host, result: Absent | Refused | Failed) -> None:
    await hasty.mail()
    [ring] = await hasty.claim()
    idle = Noticed(ring.session.session_id, Presence.IDLE, None, "test")
    await hasty.settle(ring, result)
    await hasty.observe(idle)
    await hasty.plan()
    [ring] = await hasty.claim()
    await hasty.settle(ring, Uncertain("timeout", ""))
    await hasty.observe(idle)
    await hasty.plan()
    assert len(await hasty.claim()) == 1, "it rings once more"


@pytest.mark.guarantee("G-BRIDGE-UNKNOWN")
async def test_an_unknown_ring_is_not_repeated_until_its_session_was_seen_idle_without_it(hasty: Host) -> None:
    await hasty.mail()
    [ring] = await hasty.claim()
    await hasty.settle(ring, Uncertain("timeout", ""))
    await hasty.plan()
    assert (await hasty.outcomes(), await hasty.claim()) == ([("queued", "unknown")], [])
    await hasty.observe(Noticed(ring.session.session_id, Presence.ACTIVE))
    await hasty.plan()
    assert await hasty.claim() == []
    await hasty.observe(Noticed(ring.session.session_id, Presence.IDLE))
    await hasty.plan()
    [again] = await hasty.claim()
    await hasty.settle(again, Uncertain("timeout", ""))
    await hasty.observe(Noticed(ring.session.session_id, Presence.IDLE))
    await hasty.plan()
    assert await hasty.claim() == []  # the first, and one more
    assert len(await hasty.deliveries()) == 2


@pytest.mark.guarantee("G-BRIDGE-UNKNOWN")
async def test_an_unknown_ring_that_shows_up_late_is_not_repeated(hasty: Host) -> None:
    await hasty.mail()
    [ring] = await hasty.claim()
    await hasty.settle(ring, Uncertain("timeout", ""))
    await hasty.observe(Injected(ring.session.session_id, (mark(ring),)))
    await hasty.observe(Noticed(ring.session.session_id, Presence.IDLE))
    await hasty.plan()
    assert await hasty.claim() == []
    assert await hasty.outcomes() == [("injected", "unknown")]


@pytest.mark.guarantee("G-BRIDGE-UNKNOWN")
async def test_an_unknown_ring_whose_mail_was_read_is_not_repeated(hasty: Host) -> None:
    message_id = await hasty.mail()
    [ring] = await hasty.claim()
    await hasty.settle(ring, Uncertain("timeout", ""))
    await ack(hasty, message_id)
    await hasty.observe(Noticed(ring.session.session_id, Presence.IDLE))
    await hasty.plan()
    assert await hasty.claim() == []


@pytest.mark.guarantee("G-BRIDGE-UNKNOWN")
async def test_what_a_killed_bridge_was_carrying_is_unknown(host: Host) -> None:
    await host.mail()
    [ring] = await host.claim()
    await host.tend(started=True)
    assert await host.outcomes() == [("queued", "unknown")]
    assert (await host.settle(ring)).stale
    assert await host.claim() == []


async def test_a_ring_that_nobody_confirms_is_unknown_in_the_end(hasty: Host) -> None:
    await hasty.mail()
    [ring] = await hasty.claim()
    await hasty.settle(ring)
    assert await hasty.lapse() == 1
    assert await hasty.outcomes() == [("triggered", "unknown")]
    assert await reasons(hasty) == [("held", Why.UNSURE)]


async def test_a_ring_that_no_bridge_takes_up_goes_back(hasty: Host) -> None:
    await hasty.mail()
    await hasty.store.submit(Leave(hasty.caller, hasty.bridge_id))
    await hasty.lapse()
    assert await hasty.outcomes() == [("queued", "skipped")]
    assert await reasons(hasty) == [("held", Why.NO_BRIDGE)]


@pytest.mark.guarantee("G-BRIDGE-REPOKE")
async def test_mail_that_stays_unread_is_rung_again_and_not_for_ever(hasty: Host) -> None:
    await hasty.mail()
    for _ in range(2):
        [ring] = await hasty.claim()
        await hasty.settle(ring)
        await hasty.observe(Injected(ring.session.session_id, (mark(ring),)))
        await hasty.poke()
    assert await hasty.claim() == []
    assert await hasty.poke() == 0


@pytest.mark.guarantee("G-BRIDGE-REPOKE")
async def test_mail_that_was_read_is_not_rung_again(hasty: Host) -> None:
    message_id = await hasty.mail()
    [ring] = await hasty.claim()
    await hasty.settle(ring)
    await hasty.observe(Injected(ring.session.session_id, (mark(ring),)))
    await ack(hasty, message_id)
    assert await hasty.poke() == 1
    assert (await hasty.claim(), len(await hasty.deliveries())) == ([], 1)


@pytest.mark.guarantee("G-BRIDGE-REPOKE")
@pytest.mark.parametrize(("status", "again"), [("failed", 1), ("completed", 0), ("interrupted", 0)])
async def test_a_ring_whose_turn_failed_is_looked_at_long_before_others(
    impatient: Host, status: TurnStatus, again: int
) -> None:
    await impatient.mail()
    [ring] = await impatient.claim()
    await impatient.settle(ring)
    await impatient.observe(Injected(ring.session.session_id, (mark(ring),), "t1"))
    await impatient.observe(Processed(ring.session.session_id, (mark(ring),), "t1", status))
    assert await impatient.poke() == again
    assert len(await impatient.claim()) == again


@pytest.mark.guarantee("G-BRIDGE-REPOKE")
async def test_a_model_that_fails_every_turn_is_rung_no_more_often_than_one_that_does_not_read(impatient: Host) -> None:
    await impatient.mail()
    for _ in range(1 + impatient.rules.repoke_limit):
        [ring] = await impatient.claim()
        await impatient.settle(ring)
        await impatient.observe(Processed(ring.session.session_id, (mark(ring),), "t1", "failed"))
        await impatient.observe(Processed(ring.session.session_id, (mark(ring),), "t1", "failed"))  # told twice
        await impatient.poke()
    assert (await impatient.claim(), await impatient.poke()) == ([], 0)


# -- turns ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-BRIDGE-NEXT-TURN")
async def test_mail_for_the_next_turn_is_told_in_it(host: Host) -> None:
    session = await host.beat("active")
    await host.mail(wake_policy="next_turn")
    [told] = await host.announce(session.session_id) or []
    assert await host.outcomes() == [("triggered", None)]
    await host.observe(Injected(session.session_id, (told,), "t9"))
    assert await host.outcomes() == [("injected", "delivered")]
    counted = await stored(host.bell, host.row)
    assert (counted.rings, counted.confirmed, counted.latency_total) == (0, 0, 0)  # nobody was woken


async def test_what_a_turn_was_told_does_not_ring_when_it_is_over(host: Host) -> None:
    session = await host.beat("active")
    await host.mail()
    assert await reasons(host) == [("held", Why.ACTIVE)]
    [told] = await host.announce(session.session_id) or []
    await host.observe(Injected(session.session_id, (told,)))
    await host.beat("idle")
    await host.bell.match()
    assert await host.claim() == []


async def test_a_turn_is_told_nothing_while_a_ring_is_on_its_way(host: Host) -> None:
    await host.mail()
    [ring] = await host.claim()
    assert await host.announce(ring.session.session_id) is None
    await host.settle(ring)
    assert await host.announce(ring.session.session_id) is None
