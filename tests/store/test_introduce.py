"""The session that a started process works in, on both databases: whose word counts, and when it ends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.store.builders import HUMAN, agent, new_id
from tests.store.subscribing import PutSession, session
from tests.store.test_activation import Ward, settle_in
from wakeline.core.activation import Activation
from wakeline.core.log import Workspace
from wakeline.core.queries import SessionList
from wakeline.core.session import Session
from wakeline.core.store import Store
from wakeline.flow.attend import Attention
from wakeline.flow.introduce import Introduction
from wakeline.flow.launch import Found, SettleActivation, Settled, StartActivation

PID = 7


class Case:
    """@bob's session `n1` is resumed; a test says what its harness says of itself."""

    def __init__(self, ward: Ward, row: Activation) -> None:
        self.ward, self.row = ward, row

    def said(self, native_id: str = "n1", found: str | None = None) -> Introduction:
        who = (self.ward.workspace.workspace_id, "@bob", "h")
        return Introduction(*who, "claude-code", native_id, "/work", Attention(), new_id(), found)

    async def start(self, said: Introduction, fence: int | None = None) -> Settled:
        what = (self.row.activation_id, self.row.fence if fence is None else fence, PID, 0)
        return await self.ward.store.submit(StartActivation(self.ward.bridge, *what, self.ward.rules, said))

    async def settle(self, said: Introduction, end: str = "ended", status: int | None = 0) -> Settled:
        found = Found(self.row.activation_id, "@bob", self.row.message_id, self.row.session_id)
        what = (self.row.fence, end, None, status, "words", self.ward.rules, HUMAN)
        return await self.ward.store.submit(SettleActivation(self.ward.bridge, found, *what, said))

    async def sessions(self) -> dict[str, Session]:
        rows = await self.ward.store.read(SessionList(self.ward.workspace.workspace_id, "@bob", 1, 0, 100))
        return {row.native_id or "": row for row in rows}

    async def attempt(self) -> Activation:
        [row] = await self.ward.rows(self.row.way)
        return row

    async def put(self, **changes: Any) -> None:
        """What a companion of `n1` would have said by now."""
        before = (await self.sessions())["n1"]
        await self.ward.store.submit(PutSession(msgspec.structs.replace(before, **changes)))


@pytest.fixture
async def case(store: Store, workspace: Workspace) -> Case:
    await settle_in(store, workspace)
    ward = Ward(store, workspace)
    await ward.allow("spawn")
    await ward.send()
    await ward.look()
    [order] = await ward.claim()
    return Case(ward, order.activation)


async def test_a_session_that_runs_without_a_terminal_has_no_way_in(case: Case) -> None:
    await case.put(levels='{"D4":"pass"}', transport="seat", wake_mode="socket", ended_at=2, heartbeat_at=1)
    await case.start(case.said(found=(await case.sessions())["n1"].session_id))
    running = (await case.sessions())["n1"]
    assert (running.presence, running.ended_at, running.pid) == ("active", None, PID)
    assert (running.levels, running.transport, running.wake_mode) == ("{}", None, "none")


@pytest.mark.guarantee("G-ACTIVATION-SESSION")
async def test_what_a_companion_said_since_is_not_unsaid(case: Case) -> None:
    now = await case.ward.store.now()
    await case.put(levels='{"D4":"pass"}', presence="idle", pid=99, heartbeat_at=now + 1, resumable=0)
    known = (await case.sessions())["n1"]
    await case.start(case.said(found=known.session_id))
    assert (await case.sessions())["n1"] == msgspec.structs.replace(known, resumable=1, cwd=known.cwd or "/work")


async def test_a_new_name_is_a_new_session_and_ends_with_its_process(case: Case) -> None:
    await case.start(case.said("n2"))
    await case.start(case.said("n2"))
    first = (await case.sessions())["n2"]
    assert (first.ended_at, first.cwd, first.resumable) == (None, "/work", 1)
    settled = await case.settle(case.said("n2"))
    assert not settled.stale
    last = (await case.sessions())["n2"]
    assert last.session_id == first.session_id
    assert last.ended_at is not None
    assert set(await case.sessions()) == {"n1", "n2"}


async def test_an_attempt_names_the_session_that_its_harness_works_in_from_the_first_word_on(case: Case) -> None:
    to_continue = (await case.sessions())["n1"].session_id
    assert (await case.attempt()).session_id == to_continue
    await case.start(case.said("n2"))
    begun = (await case.sessions())["n2"].session_id
    assert (await case.attempt()).session_id == begun != to_continue
    await case.ward.start(case.row)  # a sign of life that names nothing takes nothing back
    assert (await case.attempt()).session_id == begun
    settled = await case.ward.settle(case.row)
    assert settled.activation is not None
    assert (await case.attempt()).session_id == settled.activation.session_id == begun


@pytest.mark.parametrize(("end", "status"), [("ended", 0), ("ended", 7), ("failed", None)])
async def test_a_name_that_was_heard_only_at_the_end_is_kept(case: Case, end: str, status: int | None) -> None:
    await case.settle(case.said("n2"), end, status)
    session = (await case.sessions())["n2"]
    assert session.ended_at is not None
    assert (await case.attempt()).session_id == session.session_id


async def test_a_session_that_was_open_elsewhere_is_left_alone(case: Case) -> None:
    before = await case.sessions()
    await case.settle(case.said("n1", before["n1"].session_id), "already_active", 1)
    assert await case.sessions() == before
    assert (await case.attempt()).session_id == before["n1"].session_id


async def test_who_does_not_hold_the_attempt_introduces_nobody(case: Case) -> None:
    before = await case.sessions()
    assert (await case.start(case.said("n2"), fence=case.row.fence + 1)).stale
    assert await case.sessions() == before


async def test_another_agents_session_of_the_same_name_is_another(case: Case) -> None:
    await case.ward.store.submit(
        PutSession(session(agent(case.ward.workspace, "@ann"), host="h", native_id="n2", harness="claude-code"))
    )
    await case.start(case.said("n2"))
    assert (await case.sessions())["n2"].handle == "@bob"
