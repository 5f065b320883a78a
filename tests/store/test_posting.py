from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.store.builders import (
    agent,
    coordinator,
    human,
    inbox,
    log_of,
    new_id,
    open_workspace,
    post,
    send,
    unread,
)
from wakeline.core.guardrail import Guardrails
from wakeline.core.log import Workspace
from wakeline.core.principal import COORDINATOR, PARTICIPANT, Kind
from wakeline.core.queries import (
    FirstReply,
    MembersOf,
    MessageFor,
    ReceiptsOf,
    RefusalList,
    ThreadFor,
    ThreadList,
    ThreadPage,
    WorkspaceById,
)
from wakeline.core.store import Store
from wakeline.core.thread import Status
from wakeline.errors import Conflict, Forbidden, NotFound, RateLimited, WakelineError
from wakeline.flow.convene import AddMembers, ChangeStatus, CreateThread, RemoveMembers
from wakeline.flow.enrol import AddPrincipal, ChangePrincipal
from wakeline.flow.post import Post

FIRST = "\uffff"  # before the first page of a list that runs backwards


async def bodies(store: Store, handle: str, workspace: Workspace) -> list[str]:
    return [found.message.body for found in await inbox(store, agent(workspace, handle))]


async def test_what_makes_a_command_may_be_submitted_in_its_place(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    accepted = await store.submit(lambda: post(ann, "@bob", "made later"))
    [received] = await inbox(store, bob)
    assert (received.message.message_id, received.message.body) == (accepted.message_id, "made later")

    def refuse() -> Post:
        raise NotFound("NOT_FOUND", "There is nothing to send.")

    with pytest.raises(NotFound, match="nothing to send"):
        await store.submit(refuse)
    assert await unread(store, bob) == 1


async def test_a_direct_message_reaches_its_recipients_and_nobody_else(store: Store, workspace: Workspace) -> None:
    await send(store, agent(workspace, "@ann"), "@bob", "for bob")
    assert await bodies(store, "@bob", workspace) == ["for bob"]
    assert await bodies(store, "@ann", workspace) == []
    assert await bodies(store, "@cat", workspace) == []


async def test_the_same_set_of_handles_shares_one_thread(store: Store, workspace: Workspace) -> None:
    first = await send(store, agent(workspace, "@ann"), "@bob")
    answer = await send(store, agent(workspace, "@bob"), "@ann")
    wider = await send(store, agent(workspace, "@ann"), "@bob @cat")
    assert (answer.thread_id, answer.seq) == (first.thread_id, 2)
    assert (wider.thread_id == first.thread_id, wider.seq) == (False, 1)


async def test_mail_to_oneself_becomes_unread(store: Store, workspace: Workspace) -> None:
    await send(store, agent(workspace, "@ann"), "@ann", "note to self")
    assert await bodies(store, "@ann", workspace) == ["note to self"]


async def test_mail_to_a_role_goes_to_every_holder_but_the_sender(store: Store, workspace: Workspace) -> None:
    await send(store, agent(workspace, "@ann"), f"role:{PARTICIPANT}", "all hands")
    assert await bodies(store, "@bob", workspace) == ["all hands"]
    assert await bodies(store, "@cat", workspace) == ["all hands"]
    assert await bodies(store, "@ann", workspace) == []
    assert await unread(store, human(workspace)) == 0


async def test_a_role_that_was_taken_away_gets_no_more_mail(store: Store, workspace: Workspace) -> None:
    me = human(workspace)
    await store.submit(ChangePrincipal(me, "@bob", (PARTICIPANT, "reviewer"), None, None))
    await store.submit(ChangePrincipal(me, "@cat", ("reviewer", "tester"), None, None))
    await store.submit(ChangePrincipal(me, "@bob", ("tester",), None, None))
    await send(store, agent(workspace, "@ann"), "role:reviewer", "for reviewers")
    await send(store, agent(workspace, "@ann"), "role:tester", "for testers")
    assert await bodies(store, "@bob", workspace) == ["for testers"]
    assert await bodies(store, "@cat", workspace) == ["for reviewers", "for testers"]


async def test_mail_to_everyone_reaches_the_human_and_no_retired_agent(store: Store, workspace: Workspace) -> None:
    await store.submit(ChangePrincipal(human(workspace), "@cat", None, None, retired=True))
    await send(store, agent(workspace, "@ann"), "everyone", "news")
    assert await bodies(store, "@bob", workspace) == ["news"]
    assert await bodies(store, "@cat", workspace) == []
    assert await unread(store, human(workspace)) == 1


async def test_a_message_into_a_thread_reaches_its_members(store: Store, workspace: Workspace) -> None:
    thread_id = await create_thread(store, workspace, "@bob")
    accepted = await send(store, agent(workspace, "@ann"), body="in here", thread_id=thread_id)
    assert (accepted.thread_id, accepted.seq) == (thread_id, 1)
    assert await bodies(store, "@bob", workspace) == ["in here"]
    with pytest.raises(NotFound, match="no thread"):
        await send(store, agent(workspace, "@cat"), thread_id=thread_id)


async def create_thread(store: Store, workspace: Workspace, *members: str) -> str:
    return await store.submit(
        CreateThread(agent(workspace, "@ann"), new_id(), "A topic", "conversation", members, None, None, "")
    )


async def test_members_come_and_go_and_history_stays(store: Store, workspace: Workspace) -> None:
    ann, cat = agent(workspace, "@ann"), agent(workspace, "@cat")
    thread_id = await create_thread(store, workspace, "@bob")
    await send(store, ann, body="before", thread_id=thread_id)
    await store.submit(AddMembers(ann, thread_id, new_id(), ("@cat",)))
    await send(store, ann, body="after", thread_id=thread_id)
    page = await store.read(ThreadPage(thread_id, 0, "@cat", 10))
    assert [found.message.body for found in page] == ["before", "@ann added @cat.", "after"]
    assert [found.receipt is not None for found in page] == [False, True, True]
    await store.submit(RemoveMembers(ann, thread_id, new_id(), ("@cat",)))
    assert [member.handle for member in await store.read(MembersOf(thread_id))] == ["@ann", "@bob"]
    with pytest.raises(NotFound):
        await send(store, cat, thread_id=thread_id)


async def test_a_closed_thread_gives_up_its_address(store: Store, workspace: Workspace) -> None:
    first = await send(store, agent(workspace, "@ann"), "@bob")
    closing = ChangeStatus(human(workspace), first.thread_id, new_id(), Status.CLOSED, "done", None, override=False)
    await store.submit(closing)
    with pytest.raises(Conflict, match="closed"):
        await send(store, agent(workspace, "@ann"), thread_id=first.thread_id)
    again = await send(store, agent(workspace, "@ann"), "@bob")
    assert (again.thread_id == first.thread_id, again.seq) == (False, 1)
    [old] = await store.read(ThreadFor(workspace.workspace_id, first.thread_id, "@ann"))
    assert (old.thread.status, old.thread.audience_key, old.is_member) == ("closed", None, True)


@pytest.mark.guarantee("G-LOG-ORDER")
async def test_seq_grows_by_one_in_each_thread_and_log_ids_have_no_gap(store: Store, workspace: Workspace) -> None:
    before = len(await log_of(store, workspace))
    pairs = [("@ann", "@bob"), ("@bob", "@cat"), ("@cat", "@ann")] * 20
    answers = await asyncio.gather(*(send(store, agent(workspace, sender), to) for sender, to in pairs))
    for start in range(3):
        assert sorted(answer.seq for answer in answers[start::3]) == list(range(1, 21))
    entries = await log_of(store, workspace)
    assert [entry.log.log_id for entry in entries] == list(range(1, before + 61))
    assert {answer.log_id for answer in answers} == set(range(before + 1, before + 61))
    [after] = await store.read(WorkspaceById(workspace.workspace_id))
    assert after.last_log_id == before + 60


async def test_every_part_of_a_message_comes_back_as_it_was_sent(store: Store, workspace: Workspace) -> None:
    text = 'a "quoted" \\ line\nwith\ttabs, \x01 control, ünïcode, 漢字, 🚀 and \u2028'
    expires = await store.now() + 10_000_000
    sent = post(
        msgspec.structs.replace(agent(workspace, "@ann"), session_id="s1"),
        "@bob",
        text,
        subject=text[:50],
        priority="high",
        tags=["one", "two"],
        metadata='{"nul":"\\u0000","big":12345678901234567890}',
        session_id="s1",
        expires_at=expires,
    )
    answer = await store.submit(sent)
    [found] = await store.read(MessageFor(workspace.workspace_id, answer.message_id, "@bob", False))
    message = found.message
    assert (message.body, message.subject, message.metadata) == (text, text[:50], sent.message.metadata)
    assert (message.tags, message.priority, message.session_id) == ('["one","two"]', "high", "s1")
    assert (message.recipients, message.expires_at, message.kind) == ('["@bob"]', expires, "chat")
    assert (message.seq, message.log_id, message.created_at) == (answer.seq, answer.log_id, answer.created_at)
    [receipt] = await store.read(ReceiptsOf(message.workspace_id, message.log_id))
    assert (receipt, receipt.rank, receipt.box) == (found.receipt, 0, 0)


async def test_the_inbox_is_ordered_by_priority_and_then_by_age(store: Store, workspace: Workspace) -> None:
    for body, priority in [("1", "low"), ("2", "normal"), ("3", "high"), ("4", "normal"), ("5", "high")]:
        await send(store, agent(workspace, "@ann"), "@bob", body, priority=priority)
    assert await bodies(store, "@bob", workspace) == ["3", "5", "2", "4", "1"]


async def test_a_reply_is_found_by_who_asked(store: Store, workspace: Workspace) -> None:
    question = await send(store, agent(workspace, "@ann"), "@bob", "well?")
    ask = FirstReply(workspace.workspace_id, question.message_id, "@ann", False)
    assert await store.read(ask) == []
    await send(store, agent(workspace, "@bob"), body="yes", in_reply_to=question.message_id)
    await send(store, agent(workspace, "@bob"), body="or no", in_reply_to=question.message_id)
    assert [found.message.body for found in await store.read(ask)] == ["yes"]
    assert await store.read(FirstReply(workspace.workspace_id, question.message_id, "@cat", False)) == []


async def test_threads_are_listed_newest_first_to_their_members(store: Store, workspace: Workspace) -> None:
    threads = [await create_thread(store, workspace, "@bob") for _ in range(3)]
    found = await store.read(ThreadList(workspace.workspace_id, "@bob", "", "", FIRST, 2))
    assert [thread.thread_id for thread in found] == threads[:0:-1]
    rest = await store.read(ThreadList(workspace.workspace_id, "@bob", "active", "", found[-1].thread_id, 2))
    assert [thread.thread_id for thread in rest] == threads[:1]
    assert await store.read(ThreadList(workspace.workspace_id, "@cat", "", "", FIRST, 2)) == []


async def test_a_human_who_writes_past_a_coordinator_leaves_it_an_entry(store: Store, workspace: Workspace) -> None:
    me = human(workspace)
    await store.submit(AddPrincipal(me, "@lead", Kind.AGENT, (COORDINATOR,), None, None))
    lead = coordinator(workspace, "@lead")
    await store.submit(CreateThread(lead, new_id(), "A job", "workflow", ("@bob",), "@lead", None, ""))
    await send(store, me, "@bob", "psst")
    assert await bodies(store, "@lead", workspace) == ["@human wrote to @bob directly."]


REFUSED = {
    "an unknown recipient": ({"to": "@nobody"}, NotFound),
    "a role that nobody holds": ({"to": "role:ghost"}, NotFound),
    "an unknown thread": ({"thread_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, NotFound),
    "an unknown message to reply to": ({"to": "@bob", "in_reply_to": "nothing"}, NotFound),
    "an unknown message to supersede": ({"to": "@bob", "supersedes": "nothing"}, NotFound),
    "a tag for coordinators": ({"to": "@bob", "tags": ["system"]}, Forbidden),
}


@pytest.mark.guarantee("G-NO-TRACE")
@pytest.mark.parametrize(("fields", "error"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_refused_post_leaves_no_trace(
    store: Store, workspace: Workspace, fields: dict[str, object], error: type[WakelineError]
) -> None:
    ann = agent(workspace, "@ann")
    await send(store, ann, "@bob")
    before = await log_of(store, workspace)
    with pytest.raises(error):
        await send(store, ann, **fields)
    assert await log_of(store, workspace) == before
    assert await unread(store, agent(workspace, "@bob")) == 1
    follow_up = await send(store, ann, "@bob")
    assert (follow_up.seq, follow_up.log_id) == (2, before[-1].log.log_id + 1)


async def test_policy_refusals_are_counted_per_minute(store: Store, workspace: Workspace) -> None:
    for _ in range(3):
        with pytest.raises(Forbidden):
            await send(store, agent(workspace, "@ann"), "@bob", tags=["system"])
    refusals = await store.read(RefusalList(workspace.workspace_id, 10))
    assert {(refusal.handle, refusal.rule) for refusal in refusals} == {("@ann", "restricted_tags")}
    assert sum(refusal.count for refusal in refusals) == 3


@pytest.mark.guarantee("G-RATE")
async def test_the_rate_of_a_sender_is_remembered_between_batches(store: Store, workspace: Workspace) -> None:
    rails = Guardrails(rate_per_second=1, rate_burst=3)
    for _ in range(3):
        await send(store, agent(workspace, "@ann"), "@bob", rails=rails)
    with pytest.raises(RateLimited):
        await send(store, agent(workspace, "@ann"), "@bob", rails=rails)
    await send(store, agent(workspace, "@cat"), "@bob", rails=rails)


@pytest.mark.guarantee("G-WORKSPACE")
async def test_workspaces_know_nothing_of_each_other(store: Store, workspace: Workspace) -> None:
    other = await open_workspace(store, "@ann", "@bob", name="other")
    here = await send(store, agent(workspace, "@ann"), "@bob", "here")
    there = await send(store, agent(other, "@ann"), "@bob", "there")
    assert here.thread_id != there.thread_id
    assert await bodies(store, "@bob", other) == ["there"]
    assert [entry.log.log_id for entry in await log_of(store, other)] == [1, 2, 3]
    assert await store.read(MessageFor(other.workspace_id, here.message_id, "@bob", False)) == []
    with pytest.raises(NotFound):
        await send(store, agent(other, "@ann"), thread_id=here.thread_id)
    with pytest.raises(NotFound):
        await send(store, agent(other, "@ann"), in_reply_to=here.message_id)
    await send(store, agent(other, "@ann"), "everyone", "over there")
    assert await unread(store, agent(workspace, "@cat")) == 0
