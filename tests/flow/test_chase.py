from __future__ import annotations

from typing import Any

import msgspec

from tests.flow.pictures import ALICE, BOB, CAROL, HUMAN, NOW, decide, new_id, picture, post, unread
from tests.flow.test_guard import entries, incidents, set_status
from wakeline.core.guardrail import Guardrails
from wakeline.core.picture import Picture
from wakeline.core.thread import Status
from wakeline.flow.chase import Chase
from wakeline.flow.post import Accepted
from wakeline.flow.retract import Retract

RAILS = Guardrails()


def ask(world: Picture, *, answer_by: int = NOW, **fields: Any) -> Accepted:
    [asked] = decide(world, post(ALICE, "@bob", answer_by=answer_by, awaited=1, **fields))
    assert isinstance(asked, Accepted)
    return asked


def chase(world: Picture, asked: Accepted) -> str | None:
    fired = Chase(1, asked.message_id, RAILS).decide(world)
    return None if fired is None else fired.code


def test_a_question_without_an_answer_is_brought_to_the_human_once() -> None:
    world = picture()
    asked = ask(world)
    assert (chase(world, asked), chase(world, asked)) == ("NO_ANSWER_BY_DEADLINE", None)
    [incident] = incidents(world)
    assert unread(world, "@human") == [(incident.thread_id, 1)]
    thread = world.threads[asked.thread_id]
    assert (thread.status, thread.escalation_owner) == (Status.BLOCKED, "@human")


def test_nothing_happens_before_the_deadline() -> None:
    world = picture()
    asked = ask(world, answer_by=NOW + 1)
    assert chase(world, asked) is None
    assert world.messages[asked.message_id].awaited == 1


def test_an_answer_settles_it_and_the_askers_own_word_does_not() -> None:
    world = picture()
    asked = ask(world)
    decide(world, post(ALICE, in_reply_to=asked.message_id, body="anybody?"))
    assert world.messages[asked.message_id].awaited == 1
    decide(world, post(BOB, in_reply_to=asked.message_id, body="yes"))
    assert chase(world, asked) is None
    assert incidents(world) == []


def test_what_was_withdrawn_or_settled_needs_no_answer() -> None:
    for settle in (
        lambda asked: Retract(ALICE, asked.message_id, None),
        lambda asked: post(ALICE, "@bob", body="instead", supersedes=asked.message_id),
        lambda asked: set_status(BOB, asked.thread_id, Status.RESOLVED),
        lambda asked: set_status(HUMAN, asked.thread_id, Status.CLOSED),
    ):
        world = picture()
        asked = ask(world)
        [answer] = decide(world, settle(asked))
        assert not isinstance(answer, str), answer
        assert chase(world, asked) is None
        assert world.messages[asked.message_id].awaited == 0
        assert incidents(world) == []


def test_each_deadline_in_a_blocked_thread_is_told() -> None:
    world = picture()
    first, second = ask(world), ask(world, body="and this?")
    assert [chase(world, asked) for asked in (first, second)] == ["NO_ANSWER_BY_DEADLINE"] * 2
    assert len(incidents(world)) == 2
    *_, first_entry, second_entry = entries(world, first.thread_id)
    assert '"event":"status_changed"' in (first_entry.metadata or "")
    assert '"event":"guard_fired"' in (second_entry.metadata or "")


# -- contradictory status changes -------------------------------------------------------------------------------------


def flip(world: Picture, thread_id: str, *changes: tuple[Any, Status]) -> list[int]:
    """The flips after each change; -1 once the guard has fired."""
    counts = []
    for caller, status in changes:
        assert decide(world, set_status(caller, thread_id, status)) == [None]
        counts.append(-1 if incidents(world) else world.threads[thread_id].flips)
    return counts


RESOLVE, REOPEN = Status.RESOLVED, Status.ACTIVE


def test_agents_that_undo_each_other_call_the_human() -> None:
    world = picture()
    [sent] = decide(world, post(ALICE, "@bob"))
    changes = [(ALICE, RESOLVE), (BOB, REOPEN)] * 3
    assert flip(world, sent.thread_id, *changes) == [0, 1, 2, 3, 4, -1]
    [incident] = incidents(world)
    assert incident.title.startswith("CONTRADICTORY_STATUS")
    assert world.threads[sent.thread_id].status == Status.BLOCKED


def test_changing_ones_own_mind_contradicts_nobody() -> None:
    world = picture()
    [sent] = decide(world, post(ALICE, "@bob"))
    assert flip(world, sent.thread_id, *[(ALICE, RESOLVE), (ALICE, REOPEN)] * 5) == [0] * 10


def test_a_humans_word_settles_who_is_right() -> None:
    world = picture()
    [thread] = decide(world, post(ALICE, "@bob", "@human"))
    to_and_fro = [(ALICE, RESOLVE), (BOB, REOPEN), (ALICE, RESOLVE), (BOB, REOPEN)]
    assert flip(world, thread.thread_id, *to_and_fro) == [0, 1, 2, 3]
    decide(world, post(HUMAN, thread_id=thread.thread_id, body="let it rest"))
    assert flip(world, thread.thread_id, *to_and_fro) == [0, 1, 2, 3]
    assert flip(world, thread.thread_id, (HUMAN, RESOLVE), (ALICE, REOPEN)) == [0, 0]


def test_an_override_that_ends_the_escalation_begins_anew() -> None:
    world = picture()
    [sent] = decide(world, post(ALICE, "@bob"))
    flip(world, sent.thread_id, *[(ALICE, RESOLVE), (BOB, REOPEN)] * 3)
    again = set_status(HUMAN, sent.thread_id, REOPEN)
    assert decide(world, again) == [None]
    thread = world.threads[sent.thread_id]
    assert (thread.flips, thread.changed_by, thread.escalation_owner) == (0, None, None)


def test_status_flips_can_be_let_alone() -> None:
    world = picture()
    [sent] = decide(world, post(ALICE, "@bob"))
    off = Guardrails(status_flip_limit=0)
    for caller, status in [(ALICE, RESOLVE), (BOB, REOPEN)] * 9:
        change = msgspec.structs.replace(set_status(caller, sent.thread_id, status), entry_id=new_id(), rails=off)
        assert decide(world, change) == [None]
    assert incidents(world) == []


def test_who_is_not_asked_may_answer_too() -> None:
    world = picture()
    [asked] = decide(world, post(ALICE, "@bob", "@carol", answer_by=NOW, awaited=1))
    decide(world, post(CAROL, in_reply_to=asked.message_id, body="I know"))
    assert chase(world, asked) is None
