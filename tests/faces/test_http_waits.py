"""Questions that wait for each other, seen from outside."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.faces.http_calls import Actor, new_agent
from wakeline.testing.server import ServerProcess


@pytest.fixture
def alice(node: ServerProcess) -> Actor:
    return new_agent(node, "alice")


@pytest.fixture
def bob(node: ServerProcess) -> Actor:
    return new_agent(node, "bob")


@pytest.fixture
def carol(node: ServerProcess) -> Actor:
    return new_agent(node, "carol")


def eventually(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 20
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def asking(asker: Actor, asked: Actor) -> Iterator[str]:
    """While the asker waits; the id of its question.  In the end it is answered."""
    waiting = threading.Thread(target=lambda: asker.send(asked, body="well?", wait_seconds=50))
    waiting.start()
    question: str = eventually(asked.mail)[-1]["message_id"]
    try:
        yield question
    finally:
        asked.send(in_reply_to=question, body="well.")
        waiting.join()


@pytest.mark.guarantee("G-WAIT")
def test_a_question_that_closes_a_circle_is_refused_and_names_it(alice: Actor, bob: Actor, carol: Actor) -> None:
    with asking(alice, bob), asking(bob, carol):
        error = carol.send_refused("WAIT_CYCLE", alice, wait_seconds=50)
        circle = [carol.handle, alice.handle, bob.handle, carol.handle]
        assert error["details"]["cycle"] == circle
        assert " waits for ".join(circle) in error["message"]
        assert alice.unread() == []  # nothing of it was stored
        carol.send(alice, body="no hurry")
    assert "reply" in carol.send(alice, body="and now?", wait_seconds=0.01)


def test_who_has_answered_may_ask_back(alice: Actor, bob: Actor) -> None:
    with asking(alice, bob) as question:
        bob.send(in_reply_to=question, body="which one?")
        assert bob.send(alice, body="tell me", wait_seconds=0.01)["reply"] is None


def test_a_wait_ends_when_its_time_is_up(alice: Actor, bob: Actor) -> None:
    assert alice.send(bob, body="quick?", wait_seconds=0.01)["reply"] is None
    assert bob.send(alice, body="what?", wait_seconds=0.01)["reply"] is None


def test_a_wait_ends_when_the_asker_hangs_up(alice: Actor, bob: Actor, node: ServerProcess) -> None:
    connection = node.connect()
    body = f'{{"to": ["{bob.handle}"], "body": "well?", "wait_seconds": 50}}'
    connection.request("POST", "/v1/messages", body, {"Authorization": f"Bearer {alice.token}"})
    eventually(bob.mail)
    bob.send_refused("WAIT_CYCLE", alice, wait_seconds=0.01)
    connection.close()
    back = {"to": [alice.handle], "body": "are you there?", "wait_seconds": 0.01}
    eventually(lambda: bob.call("POST", "/v1/messages", back).status == 201)


def test_a_reply_that_was_waited_for_is_what_the_next_message_comes_from(
    alice: Actor, bob: Actor, carol: Actor
) -> None:
    answering = threading.Thread(
        target=lambda: bob.send(in_reply_to=eventually(bob.mail)[0]["message_id"], body="ask carol")
    )
    answering.start()
    asked = alice.send(bob, body="who knows?", wait_seconds=50)
    answering.join()
    onward = carol.message(alice.send(carol, body="do you know?")["message_id"])
    assert onward["chain"] == {"root": asked["message_id"], "hops": [alice.handle, alice.handle]}
