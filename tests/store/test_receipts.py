"""What recipients did with their mail: it only ever moves forward, and the shown count is what reading returns."""

from __future__ import annotations

import asyncio

import pytest

from tests.store.builders import HOUR, agent, human, inbox, log_of, post, send, unread
from wakeline.core.log import Workspace
from wakeline.core.message import Box, Receipt
from wakeline.core.queries import AllWorkspaces, InboxPage, MembersOf, MessageFor, ReceiptsOf
from wakeline.core.store import Store
from wakeline.errors import Conflict, NotFound
from wakeline.flow.ack import AckMessages, AckThread, ArchiveMessages, MarkSeen
from wakeline.flow.post import Accepted
from wakeline.flow.retract import Retract


async def receipt_of(store: Store, accepted: Accepted, recipient: str = "@bob") -> Receipt:
    [workspace] = await store.read(AllWorkspaces())
    receipts = await store.read(ReceiptsOf(workspace.workspace_id, accepted.log_id))
    return next(receipt for receipt in receipts if receipt.recipient == recipient)


@pytest.mark.guarantee("G-READ-FORWARD")
async def test_a_message_is_read_once_and_stays_read(store: Store, workspace: Workspace) -> None:
    bob = agent(workspace, "@bob")
    sent = await send(store, agent(workspace, "@ann"), "@bob @cat")
    ack = AckMessages(bob, (sent.message_id,))
    assert await store.submit(ack) == 1
    first = await receipt_of(store, sent)
    assert first.read_at is not None
    assert (first.box, first.seen_at) == (Box.READ, first.read_at)
    assert await store.submit(ack) == 0
    assert await store.submit(MarkSeen(bob, (sent.message_id,))) == 0
    assert await receipt_of(store, sent) == first
    assert await unread(store, bob) == 0
    assert await unread(store, agent(workspace, "@cat")) == 1


async def test_seen_mail_is_still_unread(store: Store, workspace: Workspace) -> None:
    bob = agent(workspace, "@bob")
    sent = await send(store, agent(workspace, "@ann"), "@bob")
    before = await log_of(store, workspace)
    assert await store.submit(MarkSeen(bob, (sent.message_id,))) == 1
    seen = await receipt_of(store, sent)
    assert (seen.box, seen.seen_at is not None, seen.read_at) == (Box.UNREAD, True, None)
    assert await unread(store, bob) == 1
    assert await log_of(store, workspace) == before


@pytest.mark.guarantee("G-READ-FORWARD")
async def test_archived_mail_is_read_and_never_comes_back(store: Store, workspace: Workspace) -> None:
    bob = agent(workspace, "@bob")
    sent = await send(store, agent(workspace, "@ann"), "@bob")
    assert await store.submit(ArchiveMessages(bob, (sent.message_id, sent.message_id))) == 1
    archived = await receipt_of(store, sent)
    assert (archived.box, archived.read_at) == (Box.ARCHIVED, archived.archived_at)
    assert await store.submit(AckMessages(bob, (sent.message_id,))) == 0
    assert await receipt_of(store, sent) == archived
    page = InboxPage(workspace.workspace_id, "@bob", await store.now(), Box.ARCHIVED, Box.ARCHIVED, -1, 0, 0, 10)
    assert [found.message.message_id for found in await store.read(page)] == [sent.message_id]


@pytest.mark.guarantee("G-VISIBLE")
async def test_nobody_acknowledges_what_is_not_theirs(store: Store, workspace: Workspace) -> None:
    ours = await send(store, agent(workspace, "@ann"), "@bob")
    theirs = await send(store, agent(workspace, "@ann"), "@cat")
    with pytest.raises(NotFound, match="nothing was changed"):
        await store.submit(AckMessages(agent(workspace, "@bob"), (ours.message_id, theirs.message_id)))
    assert (await receipt_of(store, ours)).read_at is None
    assert (await receipt_of(store, theirs, "@cat")).read_at is None


@pytest.mark.guarantee("G-READ-FORWARD")
async def test_a_thread_is_read_up_to_a_seq_that_never_goes_back(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    sent = [await send(store, ann, "@bob") for _ in range(5)]
    thread_id = sent[0].thread_id
    assert await store.submit(AckThread(bob, thread_id, 3)) == 3
    assert await unread(store, bob) == 2
    assert await store.submit(AckThread(bob, thread_id, 1)) == 3
    members = {member.handle: member.last_read_seq for member in await store.read(MembersOf(thread_id))}
    assert members == {"@ann": 0, "@bob": 3}
    answers = await asyncio.gather(*(store.submit(AckThread(bob, thread_id, seq)) for seq in (5, 2, 4)))
    assert max(answers) == 5
    assert await unread(store, bob) == 0


async def test_what_was_acknowledged_one_by_one_counts_for_the_thread(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    sent = [await send(store, ann, "@bob") for _ in range(3)]
    await store.submit(AckMessages(bob, (sent[1].message_id,)))
    early = (await receipt_of(store, sent[1])).read_at
    await store.submit(AckThread(bob, sent[0].thread_id, 3))
    assert (await receipt_of(store, sent[1])).read_at == early
    assert await unread(store, bob) == 0


@pytest.mark.guarantee("G-FRESH")
async def test_expired_mail_is_not_unread_even_before_it_is_swept(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    now = await store.now()
    gone = await send(store, ann, "@bob", "gone", expires_at=now - 1)
    await send(store, ann, "@bob", "fresh", expires_at=now + HOUR)
    assert [found.message.body for found in await inbox(store, bob)] == ["fresh"]
    assert await unread(store, bob) == 1
    assert await store.lapse_expired() == 1
    assert await store.lapse_expired() == 0
    lapsed = await receipt_of(store, gone)
    assert (lapsed.box, lapsed.lapsed, lapsed.read_at) == (Box.LAPSED, "expired", None)
    assert await unread(store, bob) == 1


@pytest.mark.guarantee("G-FRESH")
async def test_a_retracted_message_is_unread_no_more(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    sent = await send(store, ann, "@bob @cat")
    await store.submit(Retract(ann, sent.message_id, "typo"))
    assert (await receipt_of(store, sent)).lapsed == "retracted"
    assert await unread(store, bob) == 0
    [found] = await store.read(MessageFor(workspace.workspace_id, sent.message_id, "@bob", False))
    assert (found.message.retracted_at is not None, found.message.body) == (True, "hello")


async def test_what_somebody_has_read_cannot_be_retracted(store: Store, workspace: Workspace) -> None:
    ann = agent(workspace, "@ann")
    sent = await send(store, ann, "@bob @cat")
    await store.submit(AckMessages(agent(workspace, "@cat"), (sent.message_id,)))
    with pytest.raises(Conflict, match="@cat has read it"):
        await store.submit(Retract(ann, sent.message_id, None))
    assert await unread(store, agent(workspace, "@bob")) == 1


@pytest.mark.guarantee("G-FRESH")
async def test_a_superseding_message_takes_the_place_of_the_old_one(store: Store, workspace: Workspace) -> None:
    ann, bob, cat = (agent(workspace, handle) for handle in ("@ann", "@bob", "@cat"))
    old = await send(store, ann, "@bob @cat", "old")
    await store.submit(AckMessages(cat, (old.message_id,)))
    new = await send(store, ann, "@bob @cat", "new", supersedes=old.message_id)
    assert [found.message.body for found in await inbox(store, bob)] == ["new"]
    assert ((await receipt_of(store, old)).lapsed, (await receipt_of(store, old, "@cat")).box) == (
        "superseded",
        Box.READ,
    )
    [found] = await store.read(MessageFor(workspace.workspace_id, old.message_id, "@bob", False))
    assert found.message.superseded_by == new.message_id
    with pytest.raises(Conflict):
        await send(store, ann, "@bob @cat", "newer", supersedes=old.message_id)


async def test_a_message_sent_and_superseded_in_one_breath_is_marked(store: Store, workspace: Workspace) -> None:
    ann = agent(workspace, "@ann")
    old = post(ann, "@bob", "old")
    new = post(ann, "@bob", "new", supersedes=old.message.message_id)
    first, second = await asyncio.gather(store.submit(old), store.submit(new))
    [found] = await store.read(MessageFor(workspace.workspace_id, first.message_id, "@bob", False))
    assert (found.message.superseded_by, found.message.body) == (second.message_id, "old")
    assert await unread(store, agent(workspace, "@bob")) == 1


@pytest.mark.guarantee("G-UNREAD")
@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_the_unread_count_is_what_paging_through_the_inbox_returns(
    store: Store, workspace: Workspace, limit: int
) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    now = await store.now()
    sent = [
        await send(
            store,
            ann,
            "@bob" if number % 2 else "everyone",
            priority=("high", "normal", "low")[number % 3],
            expires_at=(None, now - 1, now + HOUR)[number % 3],
        )
        for number in range(12)
    ]
    await store.submit(AckMessages(bob, (sent[0].message_id,)))
    await store.submit(ArchiveMessages(bob, (sent[5].message_id,)))
    await store.submit(MarkSeen(bob, (sent[6].message_id,)))
    await store.submit(Retract(ann, sent[9].message_id, None))
    found = await inbox(store, bob, limit=limit)
    assert len(found) == len({row.message.message_id for row in found}) == await unread(store, bob) == 5
    assert await unread(store, human(workspace)) == 4
