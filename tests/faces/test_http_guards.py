"""Agents that go round in circles, seen from outside: the loop ends, and the human hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faces.http_calls import Actor, new_agent, operator
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


@pytest.fixture
def human(node: ServerProcess) -> Actor:
    return operator(node)


def incidents(human: Actor, thread_id: str) -> list[Any]:
    """What the human was told about this thread."""
    return [one for one in human.mail() if (one["metadata"] or {}).get("thread_id") == thread_id]


def pass_on(sender: Actor, receiver: Actor, number: int) -> Any:
    """Send, and let the receiver take it up."""
    sent = sender.send(receiver, body=f"message {number}: over to you")
    receiver.ack(sent["message_id"])
    return sent


@pytest.mark.guarantee("G-GUARD")
def test_a_loop_of_three_agents_ends_blocked_with_an_incident(
    alice: Actor, bob: Actor, carol: Actor, human: Actor
) -> None:
    ring = [(alice, bob), (bob, carol), (carol, alice)]
    posts = [pass_on(*ring[number % 3], number) for number in range(9)]
    assert [one.get("guard") for one in posts[:-1]] == [None] * 8
    last = posts[-1]
    hops = [[alice, bob, carol][number % 3].handle for number in range(9)]
    assert carol.message(last["message_id"])["chain"] == {"root": posts[0]["message_id"], "hops": hops}
    assert last["guard"]["code"] == "LOOP_CHAIN"
    thread = human.get(f"/v1/threads/{last['thread_id']}")
    assert (thread["status"], thread["escalation_owner"]) == ("blocked", human.handle)
    [told] = incidents(human, last["thread_id"])
    assert told["thread_id"] == last["guard"]["incident_thread_id"]
    assert (told["sender"], told["priority"], told["wake_policy"]) == ("@system", "high", "immediate")
    assert " → ".join(hops) in told["body"]
    assert told["metadata"]["chain"]["hops"] == hops
    assert human.get(f"/v1/threads/{told['thread_id']}")["type"] == "incident"


@pytest.mark.guarantee("G-GUARD")
def test_turns_without_progress_end_blocked_and_the_human_lets_them_go_on(
    alice: Actor, bob: Actor, human: Actor
) -> None:
    pair = [(alice, bob), (bob, alice)]
    posts = [pair[n % 2][0].send(pair[n % 2][1], body=f"point {n}") for n in range(21)]
    thread_id = posts[-1]["thread_id"]
    assert posts[-1]["guard"]["code"] == "LOOP_TURNS"
    assert [one for one in posts[:-1] if "guard" in one] == []
    summary = alice.read(thread_id, since_seq=21)["messages"][0]
    assert "20 turns between agents without progress (setting loop_turn_limit = 20)" in summary["body"]
    alice.send(bob, body="one more")  # stored, and no second incident
    assert len(incidents(human, thread_id)) == 1
    alice.refused("OVERRIDE_REQUIRED", "POST", f"/v1/threads/{thread_id}/status", status="active")
    human.post(f"/v1/threads/{thread_id}/status", status="active")
    assert "guard" not in bob.send(alice, body="thank you")


def test_a_posts_answer_is_as_before_when_no_guard_fires(alice: Actor, bob: Actor) -> None:
    assert set(alice.send(bob)) == {"message_id", "thread_id", "seq", "log_id", "created_at", "epoch"}


def test_the_log_tells_that_a_guard_fired(alice: Actor, bob: Actor, human: Actor) -> None:
    last = [alice.send(bob, body="ping") for _ in range(3)][-1]
    rows = human.get("/v1/log", limit=500, after=f"{last['epoch']}-{last['log_id'] - 1}")["events"]
    [fired] = [row for row in rows if row["kind"] == "guard.fired"]
    assert (fired["actor"], fired["stream"]) == ("@system", f"thread:{last['thread_id']}")
    assert fired["data"] == {
        "guard": "LOOP_REPEATS",
        "thread_id": last["thread_id"],
        "message_id": last["message_id"],
        "chain": None,
        "incident_thread_id": last["guard"]["incident_thread_id"],
    }


def test_a_deadline_is_shown_and_an_impossible_one_refused(alice: Actor, bob: Actor) -> None:
    sent = alice.send(bob, answer_by="2999-12-31T23:59:59Z")
    assert bob.message(sent["message_id"])["answer_by"] == "2999-12-31T23:59:59Z"
    assert "answer_by" not in bob.message(alice.send(bob, body="no hurry")["message_id"])
    alice.send_refused("INVALID_ARGUMENT", bob, answer_by="tomorrow")
    alice.send_refused("INVALID_ARGUMENT", bob, answer_by="0001-01-01T00:00:00+14:00")


def test_agents_that_undo_each_others_status_end_blocked(alice: Actor, bob: Actor, human: Actor) -> None:
    thread_id = alice.thread("who is right", bob)
    path = f"/v1/threads/{thread_id}/status"
    pair = [(alice, "resolved"), (bob, "active")]
    shown = [actor.post(path, status=status)["status"] for actor, status in pair * 3]
    assert shown == ["resolved", "active", "resolved", "active", "resolved", "blocked"]
    [told] = incidents(human, thread_id)
    assert told["metadata"]["guard"] == "CONTRADICTORY_STATUS"
