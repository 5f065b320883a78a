"""What a store offers to listeners right after a commit is exactly what reading the log would have found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.store.builders import agent, coordinator, human, new_id, open_workspace, post, send
from tests.store.places import SqlitePlace
from tests.store.test_batches import in_one_batch
from wakeline.core.appended import Appended
from wakeline.core.guardrail import Guardrails
from wakeline.core.log import Workspace
from wakeline.core.principal import PARTICIPANT, Kind
from wakeline.core.queries import Entry, LogAfter, LogMembers
from wakeline.core.records import DeadLetter, Token
from wakeline.core.store import Command, Store
from wakeline.core.thread import Status
from wakeline.flow.ack import AckMessages, AckThread, ArchiveMessages
from wakeline.flow.bury import Bury, Redriven
from wakeline.flow.convene import AddMembers, ChangeStatus, CreateThread, RemoveMembers
from wakeline.flow.enrol import AddPrincipal, ChangePrincipal, RevokeToken
from wakeline.flow.permit import ChangeBlock, ChangeGrant
from wakeline.flow.retract import Retract

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "event-stream.md"
# Rows of one principal, one host or the workspace as others here are; what they say does not change who sees them.
OF_WAKING = {"session", "subscription", "delivery", "activation", "heartbeat", "proof", "cursor"}
Audience = dict[int, set[str]]


class Listening:
    """A store, and beside it what it offered."""

    def __init__(self, store: Store, workspace: Workspace) -> None:
        self.store = store
        self.workspace = workspace
        self.offered: list[Appended] = []
        store.on_commit(lambda _workspace_id: None, self._hear, lambda: True)

    def _hear(self, appended: Appended) -> bool:
        self.offered.append(appended)
        return True

    async def check(self, *kinds: str) -> None:
        """What was offered since the last check is what the log says, and it is of these kinds."""
        offered, self.offered = self.offered, []
        entries = [entry for appended in offered for entry in appended.entries or ()]
        assert [entry.log.kind for entry in entries] == list(kinds)
        after, until = entries[0].log.log_id - 1, entries[-1].log.log_id
        assert entries == await self._entries(after)
        told = {log_id: set(handles) for appended in offered for log_id, handles in appended.audience.items()}
        assert told == await self._audience(after, until)

    async def _entries(self, after: int) -> list[Entry]:
        return await self.store.read(LogAfter(self.workspace.workspace_id, after, 100))

    async def _audience(self, after: int, until: int) -> Audience:
        found: Audience = {}
        for log_id, handle in await self.store.read(LogMembers(self.workspace.workspace_id, after, until)):
            found.setdefault(log_id, set()).add(handle)
        return found

    async def do(self, command: Command[Any], *kinds: str) -> Any:
        answer = await self.store.submit(command)
        await self.check(*kinds)
        return answer


@pytest.fixture
async def listening(sqlite: SqlitePlace) -> Listening:
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob", "@cat", roles=("reviewer",))
    return Listening(store, workspace)


async def test_messages_are_offered_as_they_are_read(listening: Listening) -> None:
    workspace, do = listening.workspace, listening.do
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    sent = await do(post(ann, "@bob @cat", "é\u2028🚀", tags=["a"], metadata='{"a":1}'), "message.posted")
    await do(post(bob, in_reply_to=sent.message_id, subject="re"), "message.posted")
    await do(post(ann, "role:reviewer", priority="high", idempotency_key="k"), "message.posted")
    await do(post(ann, "everyone"), "message.posted")
    await do(post(ann, "@bob @cat", supersedes=sent.message_id, expires_at=1 << 60), "message.posted")
    other = await do(post(ann, "@bob"), "message.posted")
    await do(Retract(ann, other.message_id, "wrong"), "message.retracted")


async def test_a_message_taken_back_in_its_own_batch_is_offered_as_taken_back(listening: Listening) -> None:
    ann = agent(listening.workspace, "@ann")
    first, message_id = post(ann, "@bob"), new_id()
    commands: list[Command[Any]] = [first, post(ann, "@bob", message_id=message_id), Retract(ann, message_id, None)]
    await in_one_batch(listening.store, commands)
    await listening.check("message.posted", "message.posted", "message.retracted")


async def test_threads_are_offered_to_those_who_are_in_them_now(listening: Listening) -> None:
    workspace, do = listening.workspace, listening.do
    ann, bob, lead = agent(workspace, "@ann"), agent(workspace, "@bob"), coordinator(workspace, "@ann")
    create = CreateThread(ann, new_id(), "plan", "conversation", ("@bob",), None, None, "")
    thread_id = await do(create, "thread.created")
    await do(AddMembers(lead, thread_id, new_id(), ("@cat",)), "message.posted")
    await do(post(bob, thread_id=thread_id), "message.posted")
    await do(AckThread(bob, thread_id, 2), "thread.acked")
    await do(RemoveMembers(bob, thread_id, new_id(), ("@bob",)), "message.posted")
    blocked = ChangeStatus(lead, thread_id, new_id(), Status.BLOCKED, "stuck", "@bob", override=False)
    await do(blocked, "message.posted")


async def test_a_coordinator_who_was_passed_by_and_all_of_the_workflow_are_told(listening: Listening) -> None:
    workspace, do = listening.workspace, listening.do
    members = ("@bob", "@cat")
    create = CreateThread(agent(workspace, "@ann"), new_id(), "work", "workflow", members, "@ann", None, "")
    await do(create, "thread.created")
    await do(post(human(workspace), "@bob"), "message.posted", "message.posted")


async def test_what_concerns_one_principal_is_offered_as_it_is_read(listening: Listening) -> None:
    workspace, do = listening.workspace, listening.do
    me, ann, bob = human(workspace), agent(workspace, "@ann"), agent(workspace, "@bob")
    token = Token("j1", workspace.workspace_id, "@dan", PARTICIPANT, None, None, 1, "@human", 2)
    await do(AddPrincipal(me, "@dan", Kind.AGENT, (PARTICIPANT,), None, token), "agent.added", "token.issued")
    await do(ChangePrincipal(me, "@dan", ("reviewer",), "Dan", None), "agent.changed")
    await do(RevokeToken(me, "j1", token), "token.revoked")
    for granted, kind in ((True, "grant.added"), (False, "grant.removed")):
        await do(ChangeGrant(bob, "CAN_REPLY_TO", "@cat", "@bob", granted=granted), kind)
    for held, kind in ((True, "block.set"), (False, "block.lifted")):
        await do(ChangeBlock(bob, "@bob", "@cat", set=held), kind)
    letter = DeadLetter(new_id(), workspace.workspace_id, "@ann", "NO_RECIPIENTS", "nobody", "{}", 0)
    await do(Bury(ann, letter, post(ann).rails), "dead_letter.kept")
    await do(Redriven(ann, letter.dead_letter_id, None), "dead_letter.redriven")


async def test_what_is_done_with_mail_is_offered_as_it_is_read(listening: Listening) -> None:
    workspace, do = listening.workspace, listening.do
    bob = agent(workspace, "@bob")
    sent = await send(listening.store, agent(workspace, "@ann"), "@bob")
    await listening.check("message.posted")
    await do(AckMessages(bob, (sent.message_id,)), "inbox.acked")
    await do(ArchiveMessages(bob, (sent.message_id,)), "inbox.archived")


async def test_what_a_guard_says_is_offered_as_it_is_read(listening: Listening) -> None:
    ann, rails = agent(listening.workspace, "@ann"), Guardrails(loop_repeat_limit=2)
    await listening.do(post(ann, "@bob", "ok", rails=rails), "message.posted")
    await listening.do(
        post(ann, "@bob", "ok", rails=rails), *["message.posted"] * 2, "thread.created", "message.posted", "guard.fired"
    )


def test_every_kind_of_event_is_compared_here() -> None:
    promised = set(re.findall(r"`([a-z_]+\.[a-z]+)`", GUIDE.read_text().split("| --- ", 1)[1]))
    promised = {kind for kind in promised if kind.partition(".")[0] not in OF_WAKING}
    assert promised <= set(re.findall(r'"([a-z_]+\.[a-z]+)"', Path(__file__).read_text()))
