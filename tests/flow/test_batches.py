from __future__ import annotations

from typing import Any

import msgspec

from tests.flow.pictures import ALICE, BOB, CAROL, HUMAN, LEAD, NOW, decide, new_id, picture, post, unread
from wakeline.core.guardrail import Guardrails
from wakeline.core.store import Command
from wakeline.core.thread import Status
from wakeline.flow.ack import AckMessages, AckThread, ArchiveMessages, MarkSeen
from wakeline.flow.convene import AddMembers, ChangeStatus, CreateThread, RemoveMembers
from wakeline.flow.enrol import ChangePrincipal
from wakeline.flow.permit import ChangeBlock
from wakeline.flow.retract import Retract


def create(members: tuple[str, ...] = ("@bob",), **fields: object) -> CreateThread:
    given = CreateThread(ALICE, new_id(), "plan", "conversation", members, None, None, "digest")
    return msgspec.structs.replace(given, **fields)


def close(thread_id: str) -> ChangeStatus:
    return ChangeStatus(LEAD, thread_id, new_id(), Status.CLOSED, None, None, override=False)


# -- each decision sees what the ones before it did -------------------------------------------------------------------


def test_two_posts_with_one_key_in_one_batch_are_one() -> None:
    world = picture()
    first, again, other = decide(
        world,
        post(ALICE, "@bob", idempotency_key="k"),
        post(ALICE, "@bob", idempotency_key="k"),
        post(ALICE, "@bob", idempotency_key="k", body="another"),
    )
    assert first == again
    assert other == "IDEMPOTENCY_CONFLICT"
    assert len(world.changes.messages) == 1


def test_two_threads_with_one_key_in_one_batch_are_one() -> None:
    world = picture()
    first, again, other = decide(
        world,
        create(idempotency_key="k"),
        create(idempotency_key="k"),
        create(idempotency_key="k", digest="another"),
    )
    assert (first, other) == (again, "IDEMPOTENCY_CONFLICT")
    assert len(world.changes.threads) == 1


def test_a_conversation_that_the_batch_opens_is_found_by_the_rest_of_it() -> None:
    world = picture()
    answers = decide(world, post(ALICE, "@bob"), post(BOB, "@alice"), post(ALICE, "@bob", "@alice"))
    assert len({answer.thread_id for answer in answers}) == 1
    assert [answer.seq for answer in answers] == [1, 2, 3]


def test_log_ids_have_no_gap_where_a_command_was_refused() -> None:
    world = picture()
    answers = decide(world, post(ALICE, "@bob"), post(ALICE, "@nobody"), post(ALICE, "@carol"), post(CAROL, "@bob"))
    assert [getattr(answer, "log_id", answer) for answer in answers] == [101, "RECIPIENT_UNKNOWN", 102, 103]
    assert [row.log_id for row in world.changes.log] == [101, 102, 103]


def test_a_refused_command_leaves_only_its_count() -> None:
    world = picture()
    assert decide(world, ChangeBlock(ALICE, "@bob", "@carol", set=True), post(ALICE, "@nobody")) == [
        "ROLE_FORBIDDEN",
        "RECIPIENT_UNKNOWN",
    ]
    changed = {name for name in world.changes.__slots__ if getattr(world.changes, name)}
    assert changed == {"refusals"}
    [refusal] = world.changes.refusals.values()
    assert (refusal.handle, refusal.rule, refusal.count) == ("@alice", "role_gate", 1)


def test_refusals_of_one_batch_add_up() -> None:
    world = picture()
    decide(world, *[ChangeBlock(ALICE, "@bob", "@carol", set=True)] * 3)
    [refusal] = world.changes.refusals.values()
    assert refusal.count == 3


def test_the_rate_counts_inside_a_batch() -> None:
    world = picture()
    rails = Guardrails(rate_per_second=1, rate_burst=2)
    answers = decide(world, *[post(ALICE, "@bob", rails=rails) for _ in range(4)], post(BOB, "@alice", rails=rails))
    assert [answer == "RATE_LIMITED" for answer in answers] == [False, False, True, True, False]
    assert world.buckets["@alice"].level == 0
    [refusal] = world.changes.refusals.values()
    assert (refusal.handle, refusal.rule, refusal.count) == ("@alice", "rate_per_second", 2)


def test_what_is_acknowledged_in_the_batch_that_brings_it_is_read() -> None:
    world = picture()
    first, second = post(ALICE, "@bob"), post(ALICE, "@bob")
    decide(world, first, second, AckMessages(BOB, (first.message.message_id,)))
    assert [seq for _, seq in unread(world, "@bob")] == [2]
    assert len(world.changes.receipts) == 2  # each row is put once, as it is at the end


def test_what_is_superseded_in_the_batch_that_brings_it_never_counts() -> None:
    world = picture()
    old = post(ALICE, "@bob", body="at three")
    new = post(ALICE, "@bob", body="at four", supersedes=old.message.message_id)
    again = post(ALICE, "@bob", supersedes=old.message.message_id)
    assert decide(world, old, new, again)[2] == "ALREADY_REPLACED"
    assert world.changes.messages[old.message.message_id].superseded_by == new.message.message_id
    assert world.changes.messages[old.message.message_id].body == "at three"
    assert not world.changes.message_marks
    assert [seq for _, seq in unread(world, "@bob")] == [2]


def test_what_is_read_and_retracted_in_one_batch_stays() -> None:
    world = picture()
    sent, other = post(ALICE, "@bob"), post(ALICE, "@bob")
    answers = decide(
        world,
        sent,
        other,
        Retract(ALICE, other.message.message_id, None),
        AckMessages(BOB, (sent.message.message_id,)),
        Retract(ALICE, sent.message.message_id, None),
        Retract(ALICE, other.message.message_id, None),
    )
    assert answers[2:] == [None, 1, "ALREADY_READ", None]
    assert world.messages[other.message.message_id].retracted_at == NOW
    assert [row.kind for row in world.changes.log].count("message.retracted") == 1


def test_a_thread_that_the_batch_closes_takes_nothing_more() -> None:
    world = picture()
    made = create()
    answers = decide(
        world,
        made,
        close(made.thread_id),
        post(ALICE, thread_id=made.thread_id),
        AddMembers(LEAD, made.thread_id, new_id(), ("@carol",)),
        RemoveMembers(BOB, made.thread_id, new_id(), ("@bob",)),
        ChangeStatus(LEAD, made.thread_id, new_id(), Status.ACTIVE, None, None, override=False),
        close(made.thread_id),
    )
    assert answers[2:] == ["THREAD_CLOSED", "THREAD_CLOSED", "THREAD_CLOSED", "INVALID_THREAD_TRANSITION", None]
    assert world.threads[made.thread_id].last_seq == 1


def test_a_conversation_that_the_batch_closes_is_opened_anew_by_the_rest_of_it() -> None:
    world = picture()
    [first] = decide(world, post(ALICE, "@bob"))
    _, second, third = decide(world, close(first.thread_id), post(ALICE, "@bob"), post(BOB, "@alice"))
    assert first.thread_id != second.thread_id == third.thread_id
    assert (second.seq, third.seq) == (1, 2)


def test_a_role_that_the_batch_gives_and_takes_counts_at_once() -> None:
    world = picture()
    asked = post(ALICE, "role:reviewer")
    decide(world, ChangePrincipal(HUMAN, "@carol", ("reviewer",), None, None), asked)
    assert unread(world, "@carol")
    later = picture()
    answers = decide(later, ChangePrincipal(HUMAN, "@bob", ("participant",), None, None), post(ALICE, "role:reviewer"))
    assert answers[1] == "NO_RECIPIENTS"


def test_who_is_retired_in_the_batch_neither_sends_nor_receives() -> None:
    world = picture()
    answers = decide(
        world, ChangePrincipal(HUMAN, "@bob", None, None, retired=True), post(ALICE, "@bob"), post(BOB, "@alice")
    )
    assert answers[1:] == ["RECIPIENT_UNKNOWN", "TOKEN_INVALID"]


def test_a_block_that_the_batch_sets_counts_at_once() -> None:
    world = picture()
    answers = decide(
        world,
        ChangeBlock(BOB, "@bob", "@alice", set=True),
        post(ALICE, "@bob"),
        ChangeBlock(BOB, "@bob", "@alice", set=False),
        post(ALICE, "@bob"),
    )
    assert answers[1] == "BLOCKED"
    assert answers[3].seq == 1


def test_who_leaves_in_the_batch_gets_nothing_that_follows() -> None:
    world = picture()
    made = create(("@bob", "@carol"))
    decide(
        world,
        made,
        RemoveMembers(BOB, made.thread_id, new_id(), ("@bob",)),
        post(ALICE, thread_id=made.thread_id),
    )
    assert unread(world, "@bob") == []
    assert len(unread(world, "@carol")) == 1


# -- read state -------------------------------------------------------------------------------------------------------


def test_seen_read_and_archived_only_move_forward() -> None:
    world = picture()
    sent = post(ALICE, "@bob")
    [posted] = decide(world, sent)
    ids = (sent.message.message_id,)
    key = (posted.thread_id, posted.seq, "@bob")
    boxes = []
    for command in (
        MarkSeen(BOB, ids),
        AckMessages(BOB, ids),
        MarkSeen(BOB, ids),
        ArchiveMessages(BOB, ids),
        AckMessages(BOB, ids),
        AckThread(BOB, posted.thread_id, 1),
        ArchiveMessages(BOB, ids),
    ):
        decide(world, command)
        boxes.append(world.receipts[key].box)
    assert boxes == [0, 1, 1, 2, 2, 2, 2]
    receipt = world.receipts[key]
    assert (receipt.seen_at, receipt.read_at, receipt.archived_at) == (NOW, NOW, NOW)


def test_nobody_marks_the_mail_of_others_as_seen() -> None:
    world = picture()
    sent = post(ALICE, "@bob")
    decide(world, sent)
    assert decide(world, MarkSeen(CAROL, (sent.message.message_id,)), MarkSeen(ALICE, (sent.message.message_id,))) == [
        0,
        0,
    ]


# -- deciding again ---------------------------------------------------------------------------------------------------


def test_deciding_a_batch_again_gives_the_same_rows() -> None:
    commands: list[Command[Any]] = [
        post(ALICE, "@bob", "@carol"),
        post(ALICE, "role:reviewer"),
        post(HUMAN, "everyone", idempotency_key="k"),
        post(ALICE, "@nobody"),
        create(),
    ]
    one, other = picture(), picture()
    decide(one, *commands)
    decide(other, *commands)
    for name in one.changes.__slots__:
        assert getattr(one.changes, name) == getattr(other.changes, name), name
