from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.faces.http_calls import Actor, error_of, new_agent, new_token, operator
from tests.faces.listener import Listener
from wakeline.testing.server import Answer, ServerProcess


class Waiting:
    """Somebody who waits for mail in a thread of its own."""

    def __init__(self, actor: Actor, query: str) -> None:
        self._actor = actor
        self._answer: list[Answer] = []
        self._thread = threading.Thread(target=self._wait, args=(query,))
        self._thread.start()

    def _wait(self, query: str) -> None:
        self._answer.append(self._actor.call("GET", f"/v1/inbox/wait?{query}"))

    def answer(self) -> Answer:
        self._thread.join(60)
        [answer] = self._answer
        return answer

    def json(self) -> Any:
        return self.answer().json()


@pytest.fixture
def bob(node: ServerProcess) -> Actor:
    return new_agent(node, "bob")


@pytest.fixture
def alice(node: ServerProcess) -> Actor:
    return new_agent(node, "alice")


def wait(actor: Actor, **query: Any) -> Any:
    return actor.get("/v1/inbox/wait", **query)


def test_unread_mail_is_answered_at_once_and_stays_unseen(alice: Actor, bob: Actor) -> None:
    sent = alice.send(bob, subject="look")
    found = wait(bob, wait_seconds=50)
    assert [(one["message_id"], one["sender"], one["subject"]) for one in found["mail"]] == [
        (sent["message_id"], alice.handle, "look")
    ]
    assert found["unread"] == 1
    [receipt] = alice.message(sent["message_id"])["receipts"]
    assert receipt["seen_at"] is None


def test_what_is_not_after_the_position_does_not_end_the_wait(alice: Actor, bob: Actor) -> None:
    alice.send(bob, body="old")
    position = wait(bob)["position"]
    assert wait(bob, after=position, wait_seconds=0.1) == {"unread": 1, "mail": [], "position": position}


def test_new_mail_ends_the_wait(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    with Listener(operator(node)) as listener:
        position = wait(bob)["position"]
        waiting = Waiting(bob, f"after={position}&wait_seconds=50")
        sent = alice.send(bob)
        assert [one["message_id"] for one in waiting.json()["mail"]] == [sent["message_id"]]
        listener.take(1)


def test_mail_for_others_in_the_same_thread_does_not(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    carol = new_agent(node, "carol")
    thread = alice.thread("three", bob, carol)
    position = wait(bob)["position"]
    waiting = Waiting(bob, f"after={position}&wait_seconds=50")
    alice.send(carol, thread_id=thread)
    sent = alice.send(bob, thread_id=thread)
    assert [one["message_id"] for one in waiting.json()["mail"]] == [sent["message_id"]]


def test_an_old_position_of_another_history_is_told_so(bob: Actor) -> None:
    error = error_of(bob.call("GET", "/v1/inbox/wait?after=ffff-3"), "EPOCH_CHANGED")
    assert error["details"]["unread"] == 0
    assert wait(bob, after=error["details"]["position"])["mail"] == []


def test_a_revoked_token_waits_for_nothing(node: ServerProcess, bob: Actor) -> None:
    second = new_token(node, bob.handle)
    waiting = Waiting(second, "wait_seconds=50")
    tokens = operator(node).get("/v1/tokens", handle=bob.handle)["tokens"]
    for token in tokens:
        operator(node).call("DELETE", f"/v1/tokens/{token['jti']}")
    answer = waiting.answer()
    assert answer.status in (200, 401)
    if answer.status == 200:
        assert answer.json()["mail"] == []
