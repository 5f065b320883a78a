"""What is dropped, what is kept, and what never depends on what was dropped."""

from __future__ import annotations

import pytest

from tests.store.builders import HOUR, agent, human, inbox, log_of, new_id, open_workspace, post, send, unread
from tests.store.places import Place, SqlitePlace
from wakeline.core.guardrail import Guardrails
from wakeline.core.log import Workspace
from wakeline.core.queries import (
    ConsumerCursor,
    DeadLetterList,
    MessageFor,
    ReceiptsOf,
    RefusalList,
    ThreadPage,
    WorkspaceById,
)
from wakeline.core.records import DeadLetter
from wakeline.core.store import Search, Store
from wakeline.core.thread import Status
from wakeline.errors import Forbidden
from wakeline.flow.ack import AckMessages, AckThread, ArchiveMessages
from wakeline.flow.bury import Bury, Redriven
from wakeline.flow.convene import ChangeStatus
from wakeline.flow.enrol import ChangePrincipal
from wakeline.flow.post import Accepted
from wakeline.flow.retract import Retract


async def first_of(store: Store, workspace: Workspace) -> tuple[int, int]:
    """The oldest row that the log says is kept, and the oldest that is there."""
    [row] = await store.read(WorkspaceById(workspace.workspace_id))
    entries = await log_of(store, workspace)
    return row.first_log_id, entries[0].log.log_id if entries else row.last_log_id + 1


async def test_the_log_is_pruned_by_count(store: Store, workspace: Workspace) -> None:
    for _ in range(7):
        await send(store, agent(workspace, "@ann"), "@bob")
    await store.index()
    assert await store.prune(workspace.workspace_id, before=None, keep=4) == 6
    assert await first_of(store, workspace) == (7, 7)
    assert await store.prune(workspace.workspace_id, before=None, keep=4) == 0
    assert (await send(store, agent(workspace, "@ann"), "@bob")).log_id == 11


async def test_the_log_is_pruned_by_age(store: Store, workspace: Workspace, place: Place) -> None:
    await send(store, agent(workspace, "@ann"), "@bob")
    if isinstance(place, SqlitePlace):
        place.now += HOUR
    young = await send(store, agent(workspace, "@ann"), "@bob")
    await store.index()
    assert await store.prune(workspace.workspace_id, before=young.created_at, keep=None) == 4
    assert await first_of(store, workspace) == (5, 5)
    assert await store.prune(workspace.workspace_id, before=young.created_at + 1, keep=None) == 1
    assert await first_of(store, workspace) == (6, 6)


async def test_whichever_limit_drops_more_wins(store: Store, workspace: Workspace) -> None:
    await store.index()
    now = await store.now()
    assert await store.prune(workspace.workspace_id, before=now - HOUR, keep=2) == 1
    assert await store.prune(workspace.workspace_id, before=now + HOUR, keep=100) == 2
    assert await store.prune(workspace.workspace_id, before=None, keep=None) == 0


@pytest.mark.guarantee("G-RETENTION")
async def test_nothing_is_pruned_that_a_consumer_has_not_passed(store: Store, workspace: Workspace) -> None:
    await send(store, agent(workspace, "@ann"), "@bob")
    await store.index()
    await send(store, agent(workspace, "@ann"), "@bob")
    assert await store.prune(workspace.workspace_id, before=None, keep=0) == 4
    assert await first_of(store, workspace) == (5, 5)
    await store.index()
    assert await store.read(ConsumerCursor(workspace.workspace_id, "search")) == [5]
    assert await store.prune(workspace.workspace_id, before=None, keep=0) == 1
    assert await first_of(store, workspace) == (6, 6)


@pytest.mark.guarantee("G-RETENTION")
async def test_unread_mail_and_history_do_not_depend_on_the_log(store: Store, workspace: Workspace) -> None:
    sent = await send(store, agent(workspace, "@ann"), "@bob", "still here", idempotency_key="k")
    await store.index()
    await store.prune(workspace.workspace_id, before=None, keep=0)
    assert [found.message.body for found in await inbox(store, agent(workspace, "@bob"))] == ["still here"]
    assert await unread(store, agent(workspace, "@bob")) == 1
    assert len(await store.read(ThreadPage(sent.thread_id, 0, "@bob", 10))) == 1
    assert await send(store, agent(workspace, "@ann"), "@bob", "still here", idempotency_key="k") == sent
    assert (await send(store, agent(workspace, "@ann"), "@bob")).log_id == sent.log_id + 1


async def test_pruning_one_workspace_leaves_the_others(store: Store, workspace: Workspace) -> None:
    other = await open_workspace(store, "@ann", name="other")
    await store.index()
    await store.prune(workspace.workspace_id, before=None, keep=0)
    assert await first_of(store, other) == (1, 1)


async def close_thread(store: Store, workspace: Workspace, accepted: Accepted) -> None:
    await store.submit(
        ChangeStatus(human(workspace), accepted.thread_id, new_id(), Status.CLOSED, "done", None, override=False)
    )


async def read_all(store: Store, workspace: Workspace, accepted: Accepted, *handles: str) -> None:
    """The message, and the entry after it that closed the thread."""
    for handle in handles:
        await store.submit(AckThread(agent(workspace, handle), accepted.thread_id, accepted.seq + 1))


async def forget(store: Store, workspace: Workspace) -> int:
    return await store.forget_closed(workspace.workspace_id, closed_before=await store.now() + HOUR)


async def test_messages_of_closed_threads_are_forgotten_with_all_that_hangs_on_them(
    store: Store, workspace: Workspace
) -> None:
    ann = agent(workspace, "@ann")
    closed = await send(store, ann, "@bob", "forget this needle", idempotency_key="old")
    await close_thread(store, workspace, closed)
    await read_all(store, workspace, closed, "@ann", "@bob")
    kept = await send(store, ann, "@cat", "keep this needle", idempotency_key="new")
    await store.index()
    assert await store.forget_closed(workspace.workspace_id, closed_before=await store.now() - HOUR) == 0
    assert await store.forget_closed(workspace.workspace_id, closed_before=await store.now() + HOUR) == 2
    assert await store.read(MessageFor(workspace.workspace_id, closed.message_id, "@bob", False)) == []
    assert await store.read(ReceiptsOf(workspace.workspace_id, closed.log_id)) == []
    assert await unread(store, agent(workspace, "@bob")) == 0
    needle = Search(workspace.workspace_id, ("needle",), "@human", True, None, None, 10)
    assert [found.message_id for found in await store.search(needle)] == [kept.message_id]
    assert await send(store, ann, "@cat", "keep this needle", idempotency_key="new") == kept
    again = await send(store, ann, "@bob", "forget this needle", idempotency_key="old")
    assert again.message_id != closed.message_id


async def test_a_forgotten_message_is_passed_over_by_the_index(store: Store, workspace: Workspace) -> None:
    closed = await send(store, agent(workspace, "@ann"), "@bob", "needle")
    await close_thread(store, workspace, closed)
    await read_all(store, workspace, closed, "@ann", "@bob")
    assert await forget(store, workspace) == 2
    await store.index()
    [row] = await store.read(WorkspaceById(workspace.workspace_id))
    assert await store.read(ConsumerCursor(workspace.workspace_id, "search")) == [row.last_log_id]


@pytest.mark.guarantee("G-RETENTION")
async def test_a_closed_thread_stays_until_everybody_has_read_it(store: Store, workspace: Workspace) -> None:
    sent = await send(store, agent(workspace, "@ann"), "@bob @cat", "not read yet")
    await close_thread(store, workspace, sent)
    other = await send(store, agent(workspace, "@ann"), "@cat", "read")
    await close_thread(store, workspace, other)
    await read_all(store, workspace, sent, "@ann", "@bob")
    await read_all(store, workspace, other, "@ann", "@cat")
    assert await forget(store, workspace) == 2
    assert (await inbox(store, agent(workspace, "@cat")))[0].message.body == "not read yet"
    await store.submit(ArchiveMessages(agent(workspace, "@cat"), (sent.message_id,)))
    assert await forget(store, workspace) == 0  # the entry that closed it is unread too
    await read_all(store, workspace, sent, "@cat")
    assert await forget(store, workspace) == 2


async def test_what_lapsed_and_who_was_retired_do_not_keep_a_closed_thread(store: Store, workspace: Workspace) -> None:
    ann = agent(workspace, "@ann")
    expired = await send(store, ann, "@bob", expires_at=await store.now() - 1)
    retracted = await send(store, ann, "@bob @cat")
    await store.submit(Retract(ann, retracted.message_id, None))
    for thread in (expired, retracted):
        await close_thread(store, workspace, thread)
        await read_all(store, workspace, thread, "@ann")
    assert await forget(store, workspace) == 0
    [closing] = await inbox(store, agent(workspace, "@cat"))
    await store.submit(AckMessages(agent(workspace, "@cat"), (closing.message.message_id,)))
    await store.submit(ChangePrincipal(human(workspace), "@bob", retired=True))
    assert await forget(store, workspace) == 4


@pytest.mark.guarantee("G-RETENTION")
async def test_open_threads_are_never_forgotten(store: Store, workspace: Workspace) -> None:
    for status in (Status.RESOLVED, Status.ACTIVE, Status.BLOCKED):
        sent = await send(store, agent(workspace, "@ann"), "@bob")
        change = ChangeStatus(human(workspace), sent.thread_id, new_id(), status, "so", None, override=True)
        await store.submit(change)
        assert await store.forget_closed(workspace.workspace_id, closed_before=await store.now() + HOUR) == 0


def letter(workspace: Workspace, sender: str) -> DeadLetter:
    return DeadLetter(new_id(), workspace.workspace_id, sender, "NO_RECIPIENTS", "nobody", "{}", 0)


async def test_only_the_newest_dead_letters_of_a_sender_are_kept(store: Store, workspace: Workspace) -> None:
    ann, bob = agent(workspace, "@ann"), agent(workspace, "@bob")
    letters = [letter(workspace, "@ann") for _ in range(5)]
    for one in letters:
        await store.submit(Bury(ann, one, Guardrails()))
    await store.submit(Bury(bob, letter(workspace, "@bob"), Guardrails()))
    await store.trim_dead_letters(workspace.workspace_id, "@ann", 2)
    kept = await store.read(DeadLetterList(workspace.workspace_id, "@ann", 0, 10))
    assert [one.dead_letter_id for one in kept] == [one.dead_letter_id for one in letters[:2:-1]]
    assert len(await store.read(DeadLetterList(workspace.workspace_id, "", 0, 10))) == 3


async def test_a_dead_letter_that_was_sent_again_is_not_open_any_more(store: Store, workspace: Workspace) -> None:
    one, two = letter(workspace, "@ann"), letter(workspace, "@ann")
    for each in (one, two):
        await store.submit(Bury(agent(workspace, "@ann"), each, Guardrails()))
    await store.submit(Redriven(human(workspace), one.dead_letter_id, "m1"))
    await store.submit(Redriven(human(workspace), two.dead_letter_id, None))
    [still_open] = await store.read(DeadLetterList(workspace.workspace_id, "", 1, 10))
    assert (still_open.dead_letter_id, still_open.attempts) == (two.dead_letter_id, 1)


async def test_old_refusals_are_forgotten(store: Store, workspace: Workspace) -> None:
    with pytest.raises(Forbidden):
        await store.submit(post(agent(workspace, "@ann"), "@bob", tags=["system"]))
    await store.forget_old_refusals(await store.now() - HOUR)
    assert len(await store.read(RefusalList(workspace.workspace_id, 10))) == 1
    await store.forget_old_refusals(await store.now() + HOUR)
    assert await store.read(RefusalList(workspace.workspace_id, 10)) == []
