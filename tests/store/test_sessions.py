"""The session registry on both databases: what is put comes back, and nothing crosses a workspace."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.store.builders import HOUR, agent, human, inbox, log_of, new_id, open_workspace, send
from wakeline import wire
from wakeline.core.log import Workspace
from wakeline.core.principal import Caller
from wakeline.core.queries import (
    MembersOf,
    MessageFor,
    SessionById,
    SessionByNative,
    SessionList,
    UnreadCounts,
    UnreadHeads,
)
from wakeline.core.session import Session
from wakeline.core.store import Store
from wakeline.errors import Forbidden, Internal, NotFound
from wakeline.flow.attend import Attention, EndSession, Heartbeat

FULL: dict[str, Any] = {
    "harness": "codex", "native_id": "n", "host": "h", "cwd": "/w", "pid": 7, "pid_started_at": "2026-11-16T03:42:07Z",
    "wake_mode": "app-server", "replyable": False, "capabilities": ["a", "b"], "levels": {"D4": "pass"},
    "presence": "waitingOnApproval", "active_turn_id": "t", "presence_source": "hook", "context_tokens": 5,
    "context_limit": 9, "resumable": True, "task_id": "task", "branch": "main",
}  # fmt: skip


def beat(caller: Caller, found: str | None = None, **said: Any) -> Heartbeat:
    return Heartbeat(caller, msgspec.convert(said, wire.HeartbeatSession), new_id(), Attention(), found)


async def sessions(store: Store, workspace: Workspace, handle: str = "", *, ended: bool = False) -> list[Session]:
    return await store.read(SessionList(workspace.workspace_id, handle, int(ended), 0, 100))


async def test_all_that_a_session_says_comes_back(store: Store, workspace: Workspace) -> None:
    bob = agent(workspace, "@bob")
    made = await store.submit(beat(bob, **FULL))
    assert await store.read(SessionById(made.session_id)) == [made]
    assert await sessions(store, workspace) == [made]
    changed = await store.submit(beat(bob, session_id=made.session_id, presence="idle", cwd=None))
    assert changed != made
    assert await sessions(store, workspace, "@bob") == [changed]
    assert await sessions(store, workspace, "@ann") == []


async def test_many_sessions_of_one_agent_come_newest_first_and_leave_when_they_end(
    store: Store, workspace: Workspace
) -> None:
    bob = agent(workspace, "@bob")
    made = [await store.submit(beat(bob, harness="pi", native_id=f"n{n}")) for n in range(3)]
    assert {one.session_id for one in await sessions(store, workspace)} == {one.session_id for one in made}
    ended = await store.submit(EndSession(bob, made[0].session_id))
    assert {one.session_id for one in await sessions(store, workspace)} == {one.session_id for one in made[1:]}
    assert ended in await sessions(store, workspace, ended=True)
    since = SessionList(workspace.workspace_id, "", 1, await store.now() + HOUR, 100)
    assert await store.read(since) == []


async def test_an_instance_is_found_by_its_own_id_also_when_it_has_ended(store: Store, workspace: Workspace) -> None:
    bob = agent(workspace, "@bob")
    named = await store.submit(beat(bob, harness="pi", native_id="n", host="h"))
    plain = await store.submit(beat(bob, harness="pi"))
    named = await store.submit(EndSession(bob, named.session_id))
    ask = (workspace.workspace_id, "@bob", "pi")
    assert await store.read(SessionByNative(*ask, "n", "h")) == [named]
    assert await store.read(SessionByNative(*ask, "", "")) == [plain]
    assert await store.read(SessionByNative(*ask, "n", "")) == []
    assert await store.read(SessionByNative(workspace.workspace_id, "@ann", "pi", "n", "h")) == []


async def test_first_heartbeats_at_once_make_one_session(store: Store, workspace: Workspace) -> None:
    bob = agent(workspace, "@bob")
    made = await asyncio.gather(*(store.submit(beat(bob, harness="pi", native_id="n")) for _ in range(20)))
    assert len({one.session_id for one in made}) == 1
    started = [row for row in await log_of(store, workspace) if row.log.kind == "session.started"]
    assert len(started) == 1


@pytest.mark.guarantee("G-WORKSPACE")
async def test_a_session_s_id_opens_nothing_in_another_workspace(store: Store, workspace: Workspace) -> None:
    other = await open_workspace(store, "@bob", name="other")
    made = await store.submit(beat(agent(workspace, "@bob"), **FULL))
    for stranger in (agent(other, "@bob"), human(other)):
        with pytest.raises(NotFound):
            await store.submit(beat(stranger, session_id=made.session_id, presence="idle"))
        with pytest.raises(NotFound):
            await store.submit(EndSession(stranger, made.session_id))
    bound = msgspec.structs.replace(agent(other, "@bob"), session_id=made.session_id)
    with pytest.raises(Internal):  # the service refuses it before; the store does not rely on that
        await store.submit(beat(bound, harness="pi"))
    assert await store.read(SessionById(made.session_id)) == [made]


async def test_heads_show_the_most_urgent_first_without_what_is_no_longer_unread(
    store: Store, workspace: Workspace
) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    await send(store, ann, "@bob", subject="normal")
    await send(store, ann, "@bob", subject="urgent", priority="high")
    await send(store, ann, "@bob", subject="expired", expires_at=1)
    await send(store, bob, "@bob", subject=None)
    now = await store.now()
    heads = await store.read(UnreadHeads(workspace.workspace_id, "@bob", now, 20))
    shown = [(head.sender, head.subject) for head in heads]
    assert shown == [("@ann", "urgent"), ("@ann", "normal"), ("@bob", None)]
    assert len(await store.read(UnreadHeads(workspace.workspace_id, "@bob", now, 2))) == 2
    counts = dict(await store.read(UnreadCounts(workspace.workspace_id, now)))
    assert counts == {"@human": 0, "@ann": 0, "@bob": 3, "@cat": 0}


# -- posting ----------------------------------------------------------------------------------------------------------


async def acting(store: Store, thread_id: str) -> dict[str, str | None]:
    return {member.handle: member.session_id for member in await store.read(MembersOf(thread_id))}


async def test_the_session_that_last_acted_in_a_thread_is_remembered(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    one = (await store.submit(beat(bob, harness="pi", native_id="1"))).session_id
    two = (await store.submit(beat(bob, harness="pi", native_id="2"))).session_id
    thread_id = (await send(store, ann, "@bob")).thread_id
    assert await acting(store, thread_id) == {"@ann": None, "@bob": None}
    for session_id, known in ((one, one), (None, one), (two, two), (two, two)):
        await send(store, bob, "@ann", session_id=session_id)
        assert await acting(store, thread_id) == {"@ann": None, "@bob": known}
    before = await sessions(store, workspace, "@bob")
    await send(store, bob, "@ann", session_id=one)
    assert await sessions(store, workspace, "@bob") == before  # a post is no heartbeat
    token = msgspec.structs.replace(ann, session_id="bound")
    await send(store, token, "@bob", session_id="bound")
    assert (await acting(store, thread_id))["@ann"] == "bound"


async def test_only_a_session_of_one_s_own_is_named_in_a_post(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    foreign = (await store.submit(beat(bob, harness="pi"))).session_id
    for session_id in (foreign, "never registered"):
        with pytest.raises(Forbidden) as refusal:
            await send(store, ann, "@bob", session_id=session_id)
        assert refusal.value.code == "CLAIM_MISMATCH"


async def test_mail_to_a_session_is_the_agent_s_and_keeps_its_address(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    session_id = (await store.submit(beat(bob, harness="pi"))).session_id
    plain = await send(store, ann, "@bob")
    sent = await send(store, ann, f"@bob/{session_id}")
    assert sent.thread_id == plain.thread_id  # the same conversation
    assert [one.message.recipients for one in await inbox(store, bob)] == ['["@bob"]', f'["@bob/{session_id}"]']
    inside = await send(store, ann, f"@bob/{session_id}", thread_id=plain.thread_id)
    [found] = await store.read(MessageFor(workspace.workspace_id, inside.message_id, "@bob", everything=False))
    assert found.message.recipients == f'["@bob/{session_id}"]'
    assert found.receipt is not None
    assert found.receipt.recipient == "@bob"


async def test_a_session_that_is_not_there_cannot_be_addressed(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    other = await open_workspace(store, "@bob", name="other")
    far = (await store.submit(beat(agent(other, "@bob"), harness="pi"))).session_id
    near = (await store.submit(beat(ann, harness="pi"))).session_id
    over = (await store.submit(beat(bob, harness="pi", native_id="over"))).session_id
    back = (await store.submit(beat(bob, harness="pi", native_id="back", resumable=True))).session_id
    for session_id in (over, back):
        await store.submit(EndSession(bob, session_id))
    for session_id in (far, near, over, "never-registered"):
        with pytest.raises(NotFound) as refusal:
            await send(store, ann, f"@bob/{session_id}")
        assert refusal.value.code == "SESSION_NOT_FOUND"
    assert await inbox(store, bob) == []
    await send(store, ann, f"@bob/{back}")  # it has ended, and can be resumed
