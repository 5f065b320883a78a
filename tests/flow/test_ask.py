from __future__ import annotations

from typing import Any

import msgspec

from tests.flow.pictures import ALICE, BOB, CAROL, HUMAN, NOW, decide, picture, post
from wakeline.core.instant import SECOND
from wakeline.core.picture import Picture
from wakeline.core.principal import Caller
from wakeline.flow.ask import EndWait
from wakeline.flow.post import Accepted


def ask(world: Picture, caller: Caller, *to: str, **fields: Any) -> Any:
    command = msgspec.structs.replace(post(caller, *to, **fields), wait=50 * SECOND)
    [answer] = decide(world, command)
    return answer


def test_a_wait_is_noted_with_the_question() -> None:
    world = picture()
    asked = ask(world, ALICE, "@bob", "@carol")
    wait = world.changes.waits[asked.message_id]
    assert (wait.asker, wait.asked, wait.until) == ("@alice", '["@bob","@carol"]', NOW + 50 * SECOND)


def test_a_question_that_closes_a_circle_is_refused_and_stores_nothing() -> None:
    world = picture()
    ask(world, ALICE, "@bob")
    ask(world, BOB, "@carol")
    before = (len(world.changes.messages), len(world.changes.log), len(world.changes.waits), dict(world.buckets))
    assert ask(world, CAROL, "@alice") == "WAIT_CYCLE"
    assert before == (
        len(world.changes.messages),
        len(world.changes.log),
        len(world.changes.waits),
        dict(world.buckets),
    )
    assert isinstance(decide(world, post(CAROL, "@alice"))[0], Accepted)  # without waiting it is no circle


def test_an_answer_in_the_same_batch_ends_the_wait() -> None:
    world = picture()
    asked = ask(world, ALICE, "@bob")
    assert isinstance(decide(world, post(BOB, in_reply_to=asked.message_id))[0], Accepted)
    assert isinstance(ask(world, BOB, "@alice"), Accepted)


def test_a_wait_that_is_over_binds_nobody() -> None:
    world = picture()
    asked = ask(world, ALICE, "@bob")
    assert decide(world, EndWait(ALICE, asked.message_id, None)) == [None]
    assert isinstance(ask(world, BOB, "@alice"), Accepted)


def test_a_human_who_waits_can_still_answer() -> None:
    world = picture()
    ask(world, HUMAN, "@bob")
    assert isinstance(ask(world, BOB, "@human"), Accepted)
    assert [wait.asker for wait in world.waits.values()] == ["@bob"]


def test_the_same_question_again_waits_on_unless_it_would_be_in_a_circle() -> None:
    world = picture()
    first = ask(world, ALICE, "@bob", idempotency_key="k")
    world.now += 49 * SECOND
    assert ask(world, ALICE, "@bob", idempotency_key="k") == first
    assert world.waits[first.message_id].until == NOW + 99 * SECOND
    world.now += 60 * SECOND
    assert isinstance(ask(world, BOB, "@alice"), Accepted)
    assert ask(world, ALICE, "@bob", idempotency_key="k") == "WAIT_CYCLE"


def test_who_got_a_reply_has_seen_it_and_takes_it_up() -> None:
    world = picture()
    asked = ask(world, ALICE, "@bob")
    [reply] = decide(world, post(BOB, in_reply_to=asked.message_id))
    assert decide(world, EndWait(ALICE, asked.message_id, reply.message_id)) == [None]
    assert world.causes["@alice", ""].message_id == reply.message_id
    assert world.receipts[reply.thread_id, reply.seq, "@alice"].seen_at == NOW
