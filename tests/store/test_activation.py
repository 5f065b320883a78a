from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.store.bells import Bell
from tests.store.builders import HUMAN, agent, bridge, human, new_id, open_workspace, send
from tests.store.places import PostgresPlace
from tests.store.subscribing import PutSession, session
from wakeline.core.activation import Activation, ActivationRules
from wakeline.core.activation_queries import ActivationList, DormancyList
from wakeline.core.log import Workspace
from wakeline.core.store import Store
from wakeline.core.waking import WakeRules
from wakeline.errors import Conflict, Forbidden, Internal
from wakeline.flow.ack import AckMessages
from wakeline.flow.launch import (
    ClaimActivations,
    Found,
    LapseActivations,
    Order,
    SettleActivation,
    Settled,
    StartActivation,
    StopActivation,
)
from wakeline.flow.mandate import AllowActivation
from wakeline.flow.tend import Tend
from wakeline.runtime.activator import Activator

# Without waiting: whoever shows no life at this very moment is dormant, and every pause is over at once.
SWIFT = ActivationRules(dormant_seconds=0, activation_lag_seconds=0, activation_backoff_seconds=0)


class Ward:
    """@bob has a session that could be resumed on the host `h`, which has a bridge; a test says what becomes of him."""

    def __init__(self, store: Store, workspace: Workspace, **rules: Any) -> None:
        self.store, self.workspace = store, workspace
        self.rules = msgspec.structs.replace(SWIFT, **rules)
        self.bridge = bridge(workspace, "h")

    def activator(self) -> Activator:
        return Activator(self.store, self.rules, WakeRules(coalesce_seconds=0), HUMAN, new_id)

    async def look(self) -> None:
        await self.activator().look()

    async def allow(self, allow: str, **fields: Any) -> Any:
        said = {
            "max_per_hour": 12, "concurrency": None, "command": None, "harness": None, "host": None, "cwd": None,
            "caller": human(self.workspace), "handle": "@bob", **fields,
        }  # fmt: skip
        return await self.store.submit(AllowActivation(allow=allow, rules=self.rules, **said))

    async def send(self) -> str:
        return (await send(self.store, agent(self.workspace, "@ann"), "@bob")).message_id

    async def rows(self, *ways: str) -> list[Activation]:
        found = await self.store.read(ActivationList(self.workspace.workspace_id, "", "", "", 100))
        return [row for row in reversed(found) if not ways or row.way in ways]

    async def reason(self) -> str | None:
        [row] = await self.store.read(DormancyList(self.workspace.workspace_id, "", await self.store.now(), 10))
        return row.reason

    async def claim(self) -> list[Order]:
        found = tuple(_found(row) for row in await self.rows("resume", "spawn") if row.result is None)
        return await self.store.submit(ClaimActivations(self.bridge, "bridge-h1", found, self.rules))

    async def start(self, row: Activation) -> Settled:
        return await self.store.submit(StartActivation(self.bridge, row.activation_id, row.fence, 7, 0, self.rules))

    async def settle(self, row: Activation, end: str = "ended", status: int | None = 0) -> Settled:
        said = SettleActivation(self.bridge, _found(row), row.fence, end, None, status, "words", self.rules, HUMAN)
        return await self.store.submit(said)

    async def stop(self, row: Activation) -> Activation:
        return await self.store.submit(StopActivation(human(self.workspace), _found(row), self.rules))


def _found(row: Activation) -> Found:
    return Found(row.activation_id, row.handle, row.message_id, row.session_id)


async def settle_in(store: Store, workspace: Workspace) -> None:
    await store.submit(Tend(bridge(workspace, "h"), "bridge-h1", "1", (), started=True))
    await store.submit(PutSession(session(agent(workspace, "@bob"), host="h", native_id="n1", resumable=1)))


@pytest.fixture
async def ward(store: Store, workspace: Workspace) -> Ward:
    await settle_in(store, workspace)
    return Ward(store, workspace)


@pytest.mark.guarantee("G-ACTIVATION-AUTHORITY")
async def test_without_a_mandate_only_the_ordinary_wake_is_tried(ward: Ward) -> None:
    await ward.send()
    await ward.look()
    await ward.look()
    [row] = await ward.rows()
    assert (row.way, row.result, row.reason) == ("trigger", "failed", "no_route")
    assert await ward.reason() == "not_allowed"


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
async def test_looks_at_once_and_again_start_one_process_for_one_message(ward: Ward) -> None:
    await ward.allow("resume")
    await ward.send()
    await asyncio.gather(*(ward.look() for _ in range(4)))
    await ward.look()
    assert len(await ward.rows("resume")) == 1
    [order] = await ward.claim()
    assert await ward.claim() == []
    await ward.look()
    assert len(await ward.rows("resume")) == 1
    assert order.session is not None
    assert order.session.native_id == "n1"


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
async def test_two_nodes_that_look_and_claim_at_once_start_one_process(postgres: PostgresPlace) -> None:
    nodes = [await postgres.open() for _ in range(2)]
    workspace = await open_workspace(nodes[0], "@ann", "@bob")
    wards = [Ward(node, workspace) for node in nodes]
    await settle_in(nodes[0], workspace)
    await wards[0].allow("resume")
    await wards[0].send()
    await asyncio.gather(*(ward.look() for ward in wards * 3))
    assert len(await wards[1].rows("resume")) == 1
    claimed = await asyncio.gather(*(ward.claim() for ward in wards * 2))
    assert sorted(map(len, claimed)) == [0, 0, 0, 1]


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
async def test_the_schema_refuses_a_second_open_process_for_one_message(ward: Ward) -> None:
    await ward.allow("resume")
    await ward.send()
    await ward.look()
    [row] = await ward.rows("resume")
    twin = msgspec.structs.replace(row, activation_id=new_id())
    with pytest.raises(Internal):
        await ward.store.submit(PutActivation(twin))


class PutActivation(msgspec.Struct, frozen=True):
    row: Activation

    @property
    def workspace_id(self) -> int:
        return self.row.workspace_id

    def needs(self, needs: Any) -> None:
        pass

    def decide(self, picture: Any) -> None:
        picture.put_activation(self.row)


async def test_mail_that_was_read_meanwhile_starts_nothing(ward: Ward) -> None:
    await ward.allow("resume")
    message_id = await ward.send()
    await ward.look()
    await ward.store.submit(AckMessages(agent(ward.workspace, "@bob"), (message_id,)))
    assert await ward.claim() == []
    [row] = await ward.rows("resume")
    assert (row.result, row.reason) == ("already_active", "already_read")


async def test_what_is_taken_back_is_not_started(ward: Ward) -> None:
    await ward.allow("resume")
    await ward.send()
    await ward.look()
    await ward.allow("none")
    assert await ward.claim() == []
    [row] = await ward.rows("resume")
    assert (row.result, row.reason) == ("failed", "not_allowed")


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
async def test_a_lease_that_is_over_fences_its_holder_off(ward: Ward) -> None:
    await ward.allow("resume")
    await ward.send()
    await ward.look()
    [order] = await ward.claim()
    assert not (await ward.start(order.activation)).stale
    over = msgspec.structs.replace(order.activation, lease_until=1)
    await ward.store.submit(PutActivation(over))
    lapse = LapseActivations(ward.workspace.workspace_id, (_found(over),), 0, ward.rules, HUMAN)
    assert await ward.store.submit(lapse) == 1
    assert await ward.store.submit(lapse) == 0
    assert (await ward.settle(order.activation)).stale
    assert (await ward.start(order.activation)).stale
    [row] = await ward.rows("resume")
    assert (row.result, row.reason) == ("failed", "lease_expired")


@pytest.mark.guarantee("G-ACTIVATION-LIMITS")
async def test_failures_in_a_row_stop_with_an_incident_and_a_human_lets_it_go_on(ward: Ward) -> None:
    await ward.allow("spawn")
    await ward.send()
    ways = []
    for _ in range(3):
        await ward.look()
        [order] = await ward.claim()
        ways.append(order.activation.way)
        await ward.settle(order.activation, status=1)
    assert ways == ["resume", "spawn", "resume"]
    await ward.look()
    assert len(await ward.rows("resume", "spawn")) == 3
    assert await ward.reason() == "crash_loop"
    await ward.allow("spawn")
    await ward.look()
    [order] = await ward.claim()
    settled = await ward.settle(order.activation, status=0)
    assert settled.activation is not None
    assert (settled.activation.result, settled.activation.reason) == ("fallback_resumed", "mail_unread")


@pytest.mark.guarantee("G-ACTIVATION-LIMITS")
async def test_what_was_planned_before_the_stop_is_not_started_after_it(ward: Ward) -> None:
    await ward.allow("resume", concurrency=2)
    await ward.send()
    await ward.look()
    [first] = await ward.claim()
    await ward.send()
    await ward.look()
    assert len(await ward.rows("resume")) == 2
    await ward.stop(first.activation)
    await ward.settle(first.activation)
    assert await ward.claim() == []
    assert [(row.result, row.reason) for row in await ward.rows("resume")] == [("failed", "stopped")] * 2


@pytest.mark.guarantee("G-ACTIVATION-LIMITS")
@pytest.mark.parametrize("end", ["failed", "already_active", "ended", "lapsed"])
async def test_a_humans_stop_holds_however_the_process_ended(ward: Ward, end: str) -> None:
    await ward.allow("resume")
    await ward.send()
    await ward.look()
    [order] = await ward.claim()
    stopped = await ward.stop(order.activation)
    if end == "lapsed":
        over = msgspec.structs.replace(stopped, lease_until=1)
        await ward.store.submit(PutActivation(over))
        await ward.store.submit(LapseActivations(over.workspace_id, (_found(over),), 0, ward.rules, HUMAN))
    else:
        await ward.settle(order.activation, end, status=None if end == "failed" else 0)
    await ward.look()
    [row] = await ward.rows("resume")
    assert (row.result, row.reason) == ("failed", "stopped")
    assert await ward.reason() == "stopped"


@pytest.mark.guarantee("G-ACTIVATION-LIMITS")
async def test_an_hour_has_only_so_many(ward: Ward) -> None:
    await ward.allow("resume", max_per_hour=1)
    await ward.send()
    await ward.look()
    [order] = await ward.claim()
    await ward.settle(order.activation, status=1)
    await ward.look()
    assert len(await ward.rows("resume")) == 1
    assert await ward.reason() == "activation_rate"


@pytest.mark.guarantee("G-ACTIVATION-LIMITS")
async def test_a_workspace_has_only_so_many_at_once(store: Store, workspace: Workspace) -> None:
    await settle_in(store, workspace)
    await store.submit(PutSession(session(agent(workspace, "@ann"), host="h", native_id="n2", resumable=1)))
    ward = Ward(store, workspace, activation_concurrency=1)
    for handle in ("@ann", "@bob"):
        await ward.allow("resume", handle=handle)
    await ward.send()
    letter = await send(store, agent(workspace, "@bob"), "@ann")
    await ward.look()
    await ward.look()
    [order] = await ward.claim()
    assert [row.handle for row in await ward.rows("resume")] == ["@ann"]
    await store.submit(AckMessages(agent(workspace, "@ann"), (letter.message_id,)))
    await ward.settle(order.activation)
    await ward.look()
    assert [row.handle for row in await ward.rows("resume")] == ["@ann", "@bob"]


async def test_an_ordinary_wake_is_tried_again_a_few_times_and_no_more(store: Store, workspace: Workspace) -> None:
    bell = Bell(store, workspace)
    await bell.subscribe("@bob", coalesce_window=0)
    await store.submit(PutSession(session(agent(workspace, "@bob"))))
    ward = Ward(store, workspace, activation_tries=2)
    await ward.send()
    for planned in await bell.match():
        await bell.settle(planned)
    for _ in range(3):
        await ward.look()
        for planned in await bell.claim():
            await bell.settle(planned)
    assert [(row.way, row.result) for row in await ward.rows()] == [("trigger", "triggered")] * 2
    assert len(await bell.deliveries()) == 3
    assert await ward.reason() == "not_allowed"


@pytest.mark.guarantee("G-ACTIVATION-AUTHORITY")
async def test_only_a_human_allows_within_the_guardrails_and_never_a_bypass(ward: Ward) -> None:
    for fields, code in (
        ({"caller": agent(ward.workspace, "@bob")}, "ROLE_FORBIDDEN"),
        ({"max_per_hour": 13}, "ACTIVATION_LIMIT"),
        ({"concurrency": 5}, "ACTIVATION_LIMIT"),
        ({"command": ("claude", "-p", "--dangerously-skip-permissions")}, "PERMISSION_BYPASS_REFUSED"),
    ):
        with pytest.raises(Forbidden) as refused:
            await ward.allow("spawn", **fields)
        assert refused.value.code == code


async def test_a_bridge_without_its_lease_claims_nothing(ward: Ward) -> None:
    await ward.allow("resume")
    await ward.send()
    await ward.look()
    [row] = await ward.rows("resume")
    stranger = ClaimActivations(ward.bridge, "bridge-h2", (_found(row),), ward.rules)
    with pytest.raises(Conflict):
        await ward.store.submit(stranger)
