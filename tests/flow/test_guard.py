from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.flow.pictures import ALICE, BOB, CAROL, HUMAN, LEAD, ROLES, decide, new_id, picture, post, unread
from wakeline.core.guardrail import Guardrails
from wakeline.core.message import Message
from wakeline.core.picture import Picture
from wakeline.core.principal import Caller, Kind, Principal
from wakeline.core.thread import Status, Thread, ThreadType
from wakeline.flow.ack import AckMessages
from wakeline.flow.convene import AddMembers, ChangeStatus, CreateThread
from wakeline.flow.post import Accepted

SMALL = Guardrails(loop_turn_limit=3, loop_repeat_limit=3, loop_chain_limit=3)
Said = tuple[Caller, str]


def say(world: Picture, caller: Caller, body: str, *to: str, **fields: Any) -> Accepted:
    [answer] = decide(world, post(caller, *to, body=body, rails=fields.pop("rails", SMALL), **fields))
    assert isinstance(answer, Accepted), answer
    return answer


def code(answer: Accepted) -> str | None:
    return None if answer.guard is None else answer.guard.code


def set_status(caller: Caller, thread_id: str, status: Status, **fields: Any) -> ChangeStatus:
    change = ChangeStatus(caller, thread_id, new_id(), status, None, None, override=False)
    return msgspec.structs.replace(change, **fields)


def incidents(world: Picture) -> list[Thread]:
    return [thread for thread in world.threads.values() if thread.type == ThreadType.INCIDENT]


def entries(world: Picture, thread_id: str) -> list[Message]:
    found = [message for message in world.messages.values() if message.thread_id == thread_id]
    return sorted(found, key=lambda message: message.seq)


def blocked_by_turns(world: Picture) -> Accepted:
    """Alice and Bob answer each other until the third turn."""
    for caller, body, to in ((ALICE, "1", "@bob"), (BOB, "2", "@alice"), (ALICE, "3", "@bob")):
        assert code(say(world, caller, body, to)) is None
    return say(world, BOB, "4", "@alice")


# -- which guard fires when -------------------------------------------------------------------------------------------

LOOPS: dict[str, tuple[list[Said], str | None]] = {
    "a dialogue of three turns": ([(ALICE, "1"), (BOB, "2"), (ALICE, "3"), (BOB, "4")], "LOOP_TURNS"),
    "one short of it": ([(ALICE, "1"), (BOB, "2"), (ALICE, "3")], None),
    "a monologue": ([(ALICE, str(n)) for n in range(9)], None),
    "a human in between": ([(ALICE, "1"), (BOB, "2"), (ALICE, "3"), (HUMAN, "go on"), (BOB, "4")], None),
    "the same text three times": ([(ALICE, "thanks"), (BOB, "Thanks"), (BOB, " thanks ")], "LOOP_REPEATS"),
    "the same text twice, then another": ([(ALICE, "thanks"), (BOB, "thanks"), (ALICE, "bye")], None),
    "a human who repeats": ([(HUMAN, "hello?"), (HUMAN, "hello?"), (HUMAN, "hello?")], None),
}


@pytest.mark.parametrize(("said", "expected"), LOOPS.values(), ids=LOOPS.keys())
def test_a_loop_inside_a_thread_calls_the_human(said: list[Said], expected: str | None) -> None:
    world = picture()
    [thread_id] = decide(world, CreateThread(ALICE, new_id(), "t", "conversation", ("@bob",), None, None, ""))
    answers = [say(world, caller, body, thread_id=thread_id) for caller, body in said]
    assert [code(answer) for answer in answers] == [None] * (len(said) - 1) + [expected]
    assert len(incidents(world)) == (expected is not None)


def test_a_loop_through_threads_calls_the_human_and_names_the_chain() -> None:
    world = picture()
    ring = [(ALICE, "@bob", BOB), (BOB, "@carol", CAROL), (CAROL, "@alice", ALICE)]
    answers = []
    for number in range(4):
        caller, to, reader = ring[number % 3]
        answers.append(say(world, caller, f"message {number}", to))
        assert decide(world, AckMessages(reader, (answers[-1].message_id,))) == [1]
    assert [code(answer) for answer in answers] == [None, None, None, "LOOP_CHAIN"]
    [incident] = incidents(world)
    [told] = entries(world, incident.thread_id)
    assert "@alice → @bob → @carol → @alice" in told.body


def test_mail_to_oneself_goes_round_nowhere() -> None:
    world = picture()
    assert [code(say(world, ALICE, "note", "@alice")) for _ in range(5)] == [None] * 5


# -- what firing does -------------------------------------------------------------------------------------------------


def test_a_guard_that_fires_loses_nothing_blocks_the_thread_and_tells_everybody() -> None:
    world = picture()
    answer = blocked_by_turns(world)
    thread = world.threads[answer.thread_id]
    assert (thread.status, thread.escalation_owner) == (Status.BLOCKED, "@human")
    *_, last, summary = entries(world, thread.thread_id)
    assert (last.message_id, last.body) == (answer.message_id, "4")
    assert (summary.sender, summary.kind, summary.wake_policy) == ("@system", "system", "silent")
    assert "3 turns between agents without progress (setting loop_turn_limit = 3)" in summary.body
    assert {("@alice", 5), ("@bob", 5)} <= {(r.recipient, r.seq) for r in world.receipts.values()}
    assert [row.kind for row in world.changes.log][-4:] == [
        "message.posted", "thread.created", "message.posted", "guard.fired",
    ]  # fmt: skip


def test_the_incident_lies_in_the_humans_inbox_and_wakes() -> None:
    world = picture()
    answer = blocked_by_turns(world)
    [incident] = incidents(world)
    assert answer.guard is not None
    assert answer.guard.incident_thread_id == incident.thread_id
    assert incident.title == "LOOP_TURNS: @alice, @bob"
    [told] = entries(world, incident.thread_id)
    assert (told.sender, told.priority, told.wake_policy) == ("@system", "high", "immediate")
    assert msgspec.json.decode(told.metadata or "") == {
        "guard": "LOOP_TURNS", "thread_id": answer.thread_id, "message_id": answer.message_id, "chain": None,
    }  # fmt: skip
    assert unread(world, "@human") == [(incident.thread_id, 1)]


def test_every_human_who_is_there_is_told() -> None:
    people = [("@ada", None), ("@zoe", None), ("@old", 5)]
    rows = [Principal(1, handle, Kind.HUMAN, "human", None, 0, "@system", gone) for handle, gone in people]
    agents = [Principal(1, handle, Kind.AGENT, roles, None, 0, "@zoe") for handle, roles in ROLES.items()]
    world = picture(principals=[*rows, *agents], role_holders=[("human", handle) for handle, _ in people])
    for body in ("1", "1"):
        say(world, ALICE, body, "@bob")
    answer = say(world, ALICE, "1", "@bob", rails=msgspec.structs.replace(SMALL, human_handle="@zoe"))
    assert code(answer) == "LOOP_REPEATS"
    [incident] = incidents(world)
    assert world.members_of(incident.thread_id) == ["@zoe", "@ada"]
    assert world.threads[answer.thread_id].escalation_owner == "@zoe"


def test_without_a_human_the_thread_is_blocked_all_the_same() -> None:
    world = picture(role_holders=[])
    answer = blocked_by_turns(world)
    assert answer.guard is not None
    assert answer.guard.incident_thread_id is None
    assert world.threads[answer.thread_id].status == Status.BLOCKED


def test_a_blocked_thread_takes_mail_and_does_not_fire_again() -> None:
    world = picture()
    first = blocked_by_turns(world)
    for number in range(20):
        caller, to = ((ALICE, "@bob"), (BOB, "@alice"))[number % 2]
        assert code(say(world, caller, "again", to)) is None
    assert len(incidents(world)) == 1
    assert world.threads[first.thread_id].last_seq == 25


def test_two_posts_of_one_batch_that_cross_the_limit_fire_once() -> None:
    world = picture()
    say(world, ALICE, "ok", "@bob")
    say(world, BOB, "ok", "@alice")
    both = decide(world, *(post(ALICE, "@bob", body="ok", rails=SMALL) for _ in range(2)))
    assert [code(answer) for answer in both] == ["LOOP_REPEATS", None]
    assert len(incidents(world)) == 1


def test_the_same_key_again_answers_with_the_same_incident() -> None:
    world = picture()
    for _ in range(2):
        say(world, ALICE, "ok", "@bob")
    first = say(world, ALICE, "ok", "@bob", idempotency_key="k")
    assert (code(first), say(world, ALICE, "ok", "@bob", idempotency_key="k")) == ("LOOP_REPEATS", first)


# -- progress ---------------------------------------------------------------------------------------------------------


def test_only_the_human_or_an_override_unblocks_and_that_sets_the_counters_back() -> None:
    world = picture()
    thread_id = blocked_by_turns(world).thread_id
    assert decide(world, set_status(ALICE, thread_id, Status.ACTIVE)) == ["OVERRIDE_REQUIRED"]
    assert decide(world, set_status(LEAD, thread_id, Status.ACTIVE)) == ["OVERRIDE_REQUIRED"]
    assert decide(world, set_status(HUMAN, thread_id, Status.ACTIVE)) == [None]
    thread = world.threads[thread_id]
    assert (thread.status, thread.turns, thread.repeats) == (Status.ACTIVE, 0, 0)
    assert code(say(world, ALICE, "5", "@bob")) is None


def test_a_new_member_and_a_change_of_status_are_progress() -> None:
    world = picture()
    [thread_id] = decide(world, CreateThread(ALICE, new_id(), "t", "conversation", ("@bob",), None, None, ""))
    for moves_on in (
        AddMembers(ALICE, thread_id, new_id(), ("@carol",)),
        set_status(BOB, thread_id, Status.RESOLVED),
        set_status(BOB, thread_id, Status.ACTIVE),
    ):
        for caller, body in ((ALICE, "1"), (BOB, "2"), (ALICE, "3")):
            assert code(say(world, caller, body, thread_id=thread_id)) is None
        assert world.threads[thread_id].turns >= 2
        assert decide(world, moves_on) == [None]
        assert world.threads[thread_id].turns == 0


def test_thanking_each_other_in_a_resolved_thread_is_a_loop_too() -> None:
    world = picture()
    thread_id = say(world, ALICE, "done", "@bob").thread_id
    assert decide(world, set_status(BOB, thread_id, Status.RESOLVED)) == [None]
    answers = [say(world, *pair) for pair in [(ALICE, "thanks", "@bob"), (BOB, "thanks", "@alice")] * 2]
    assert [code(answer) for answer in answers] == [None, None, "LOOP_REPEATS", None]
    assert world.threads[thread_id].status == Status.BLOCKED


def test_after_unblocking_an_answer_in_the_same_thread_does_not_fire_for_the_old_chain() -> None:
    world = picture()
    ring = [(ALICE, "@bob", BOB), (BOB, "@carol", CAROL), (CAROL, "@alice", ALICE), (ALICE, "@bob", BOB)]
    said = []
    for number, (caller, to, reader) in enumerate(ring):
        said.append(say(world, caller, f"message {number}", to))
        decide(world, AckMessages(reader, (said[-1].message_id,)))
    last = said[-1]
    assert code(last) == "LOOP_CHAIN"
    assert decide(world, set_status(HUMAN, last.thread_id, Status.ACTIVE)) == [None]
    assert code(say(world, BOB, "I see", in_reply_to=last.message_id)) is None
