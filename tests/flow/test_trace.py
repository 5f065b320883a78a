from __future__ import annotations

from typing import Any

from tests.flow.pictures import ALICE, BOB, CAROL, HUMAN, decide, new_id, picture, post
from wakeline.core import chain
from wakeline.core.picture import Picture
from wakeline.core.principal import Caller
from wakeline.core.thread import Status
from wakeline.flow.ack import AckMessages, AckThread
from wakeline.flow.convene import ChangeStatus


def say(world: Picture, caller: Caller, *to: str, **fields: Any) -> str:
    [answer] = decide(world, post(caller, *to, **fields))
    message_id: str = answer.message_id
    return message_id


def take_up(world: Picture, caller: Caller, message_id: str) -> None:
    assert decide(world, AckMessages(caller, (message_id,))) == [1]


def hops(world: Picture, message_id: str) -> tuple[str, ...] | None:
    text = world.messages[message_id].chain
    return None if text is None else chain.parse(text).hops


def test_who_goes_round_through_three_threads_leaves_a_trace() -> None:
    world = picture()
    first = say(world, ALICE, "@bob")
    take_up(world, BOB, first)
    second = say(world, BOB, "@carol")
    take_up(world, CAROL, second)
    third = say(world, CAROL, "@alice")
    take_up(world, ALICE, third)
    again = say(world, ALICE, "@bob")
    assert hops(world, first) is None
    assert hops(world, second) == ("@alice", "@bob")
    assert hops(world, again) == ("@alice", "@bob", "@carol", "@alice")
    assert chain.parse(world.messages[again].chain or "").root == first


def test_a_reply_comes_from_what_it_answers_whatever_was_taken_up() -> None:
    world = picture()
    asked = say(world, ALICE, "@bob")
    other = say(world, CAROL, "@bob")
    take_up(world, BOB, other)
    assert hops(world, say(world, BOB, in_reply_to=asked)) == ("@alice",)
    assert hops(world, say(world, BOB, "@carol", in_reply_to=asked)) == ("@alice", "@bob")


def test_a_dialogue_in_one_thread_has_a_chain_without_hops() -> None:
    world = picture()
    first = say(world, ALICE, "@bob")
    take_up(world, BOB, first)
    assert hops(world, say(world, BOB, "@alice")) == ("@alice",)


def test_what_a_human_says_begins_anew_and_is_a_beginning() -> None:
    world = picture()
    take_up(world, HUMAN, say(world, ALICE, "@human"))
    said = say(world, HUMAN, "@bob")
    take_up(world, BOB, said)
    assert hops(world, said) is None
    assert hops(world, say(world, BOB, "@carol")) == ("@human", "@bob")


def test_who_moved_something_on_begins_anew() -> None:
    world = picture()
    first = say(world, ALICE, "@bob")
    take_up(world, BOB, first)
    thread_id = world.messages[first].thread_id
    assert decide(world, ChangeStatus(BOB, thread_id, new_id(), Status.RESOLVED, None, None, override=False)) == [None]
    assert hops(world, say(world, BOB, "@carol")) == ("@bob", "@bob")


def test_reading_a_thread_takes_up_its_newest_mail() -> None:
    world = picture()
    older = say(world, ALICE, "@bob")
    newer = say(world, ALICE, "@bob")
    thread_id = world.messages[older].thread_id
    assert decide(world, AckThread(BOB, thread_id, 2, newest=newer)) == [2]
    assert world.causes["@bob", ""].message_id == newer
    assert decide(world, AckThread(BOB, thread_id, 2, newest=older)) == [2]  # it was read already
    assert world.causes["@bob", ""].message_id == newer


def test_the_newest_of_what_was_read_at_once_is_taken_up() -> None:
    world = picture()
    ids = [say(world, ALICE, "@bob"), say(world, CAROL, "@bob"), say(world, BOB, "@bob")]
    assert decide(world, AckMessages(BOB, (ids[1], ids[0], ids[2]))) == [3]
    assert world.causes["@bob", ""].message_id == ids[1]
