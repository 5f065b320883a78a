from __future__ import annotations

import functools
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.faces.http_calls import HUMAN, NOWHERE, Actor, new_agent, new_name, new_token, operator
from wakeline.testing.server import ServerProcess

MESSAGE_FIELDS = {
    "message_id", "thread_id", "seq", "log_id", "sender", "session_id", "kind", "subject", "body", "body_truncated",
    "to", "priority", "wake_policy", "tags", "in_reply_to", "expires_at", "supersedes", "superseded_by",
    "retracted_at", "metadata", "schema_version", "created_at", "state", "receipt",
}  # fmt: skip


@pytest.fixture
def alice(node: ServerProcess) -> Actor:
    return new_agent(node, "alice")


@pytest.fixture
def bob(node: ServerProcess) -> Actor:
    return new_agent(node, "bob")


@pytest.fixture
def carol(node: ServerProcess) -> Actor:
    return new_agent(node, "carol")


def soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def statuses(*calls: Any) -> list[Any]:
    """Run these at once, each in a thread of its own; answers in order."""
    answers: list[Any] = [None] * len(calls)
    barrier = threading.Barrier(len(calls))

    def run(place: int) -> None:
        barrier.wait()
        answers[place] = calls[place]()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


# -- shapes -----------------------------------------------------------------------------------------------------------


def test_a_post_answers_with_its_place(alice: Actor, bob: Actor) -> None:
    answer = alice.call("POST", "/v1/messages", {"to": [bob.handle], "body": "hello"})
    assert answer.status == 201
    posted = answer.json()
    assert set(posted) == {"message_id", "thread_id", "seq", "log_id", "created_at", "epoch"}
    assert (posted["seq"], type(posted["log_id"])) == (1, int)
    assert datetime.fromisoformat(posted["created_at"]).tzinfo is not None


def test_every_field_arrives_as_it_was_sent(alice: Actor, bob: Actor) -> None:
    fields = {
        "subject": "Grüße 🙂",
        "body": 'one\ntwo\t"three" \\u0000 \\ </script> \u2028',
        "kind": "event",
        "priority": "low",
        "wake_policy": "silent",
        "tags": ["todo", "ä"],
        "expires_at": "2999-01-31T12:00:00.123456+02:00",
        "metadata": {"n": 1, "deep": [{"x": None}], "big": 2**70, "f": 1.5, "ü": "\\u0000"},
        "schema_version": 1,
    }
    posted = alice.send(bob, **fields)
    [message] = bob.inbox()["messages"]
    assert set(message) == MESSAGE_FIELDS
    assert {**message, **fields, "expires_at": "2999-01-31T10:00:00.123456Z"} == message
    assert message["sender"] == alice.handle
    assert message["to"] == [bob.handle]
    assert message["state"] == "current"
    assert {name: message[name] for name in posted if name != "epoch"} == {
        name: posted[name] for name in posted if name != "epoch"
    }
    assert bob.message(posted["message_id"])["metadata"] == fields["metadata"]


def test_an_inbox_says_how_much_there_is_and_where_the_log_stands(alice: Actor, bob: Actor) -> None:
    posted = alice.send(bob)
    inbox = bob.inbox()
    assert set(inbox) == {"messages", "unread", "has_more", "next", "position"}
    assert (len(inbox["messages"]), inbox["unread"], inbox["has_more"], inbox["next"]) == (1, 1, False, None)
    assert inbox["position"] == f"{posted['epoch']}-{posted['log_id']}"


def test_a_thread_is_read_by_seq(alice: Actor, bob: Actor) -> None:
    thread_id = alice.send(bob, body="1")["thread_id"]
    for n in range(2, 6):
        alice.send(bob, body=str(n))
    first = bob.read(thread_id, limit=2)
    assert set(first) == {"messages", "next_seq", "has_more"}
    assert ([one["body"] for one in first["messages"]], first["next_seq"], first["has_more"]) == (["1", "2"], 2, True)
    rest = bob.read(thread_id, since_seq=2)
    assert ([one["body"] for one in rest["messages"]], rest["next_seq"], rest["has_more"]) == (
        ["3", "4", "5"],
        5,
        False,
    )
    assert bob.read(thread_id, since_seq=5) == {"messages": [], "next_seq": 5, "has_more": False}


def test_the_default_wake_policy_follows_from_the_address(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    reviewer = new_agent(node, "reviewer", "style")
    alice.send(bob)
    alice.send("role:style")
    assert bob.inbox()["messages"][0]["wake_policy"] == "immediate"
    assert reviewer.inbox()["messages"][0]["wake_policy"] == "next_turn"


@pytest.mark.parametrize("to", ["role:{}", "everyone"])
def test_a_question_that_waits_for_its_answer_wakes_at_once_whomever_it_asks(
    node: ServerProcess, alice: Actor, to: str
) -> None:
    role = new_name("role").removeprefix("@")
    reviewer = new_agent(node, "reviewer", role)
    address = to.format(role)
    asked = [
        alice.send(address, body=body, wait_seconds=0.01, **said)["message_id"]
        for body, said in (("now?", {}), ("or later?", {"wake_policy": "silent"}))
    ]
    policies = [reviewer.get(f"/v1/messages/{message_id}")["wake_policy"] for message_id in asked]
    assert policies == ["immediate", "silent"]


# -- where it goes ----------------------------------------------------------------------------------------------------


def test_the_exact_set_of_people_has_one_conversation(alice: Actor, bob: Actor, carol: Actor) -> None:
    pair = alice.send(bob)["thread_id"]
    assert bob.send(alice)["thread_id"] == pair
    assert alice.send(alice, bob)["thread_id"] == pair
    three = alice.send(bob, carol)["thread_id"]
    assert three != pair
    assert carol.send(bob, alice)["thread_id"] == three
    assert {member["handle"] for member in carol.get(f"/v1/threads/{three}")["members"]} == {
        alice.handle,
        bob.handle,
        carol.handle,
    }


def test_a_crowd_has_a_conversation_too(node: ServerProcess, alice: Actor) -> None:
    crowd = [new_agent(node, "one-of-many-with-a-name-as-long-as-can-be") for _ in range(60)]
    first = alice.send(*crowd)
    assert crowd[-1].send(alice, *crowd[:-1])["thread_id"] == first["thread_id"]
    assert crowd[7].inbox()["unread"] == 2


def test_role_mail_goes_to_the_holders_of_the_moment(node: ServerProcess, alice: Actor) -> None:
    role = alice.handle.strip("@").replace(".", "-")
    first = new_agent(node, "first", role)
    standing = alice.send(f"role:{role}", body="early")["thread_id"]
    late = new_agent(node, "late", "other", role)
    assert alice.send(f"role:{role}", body="now")["thread_id"] == standing
    assert first.unread() == ["early", "now"]
    assert late.unread() == ["now"]
    assert alice.unread() == []
    assert late.mail()[0]["to"] == [f"role:{role}"]


def test_everyone_is_everyone_else_when_it_was_sent(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    posted = alice.send("everyone", body="all hands")
    late = new_agent(node, "late")
    assert bob.unread() == ["all hands"]
    assert alice.unread() == late.unread() == []
    recipients = [receipt["recipient"] for receipt in alice.message(posted["message_id"])["receipts"]]
    assert HUMAN in recipients
    assert not {alice.handle, late.handle, "@system"} & set(recipients)


def test_mail_to_oneself_is_unread_mail(alice: Actor) -> None:
    alice.send("@me", body="for my next session")
    alice.send(alice, body="this too")
    assert alice.unread() == ["for my next session", "this too"]


def test_a_thread_reaches_its_members_and_to_narrows_it(alice: Actor, bob: Actor, carol: Actor) -> None:
    thread_id = alice.thread("plan", bob, carol)
    alice.send(thread_id=thread_id, body="to all")
    alice.send(bob, thread_id=thread_id, body="to bob")
    alice.send("everyone", thread_id=thread_id, body="to all again")
    assert bob.unread() == ["to all", "to bob", "to all again"]
    assert carol.unread() == ["to all", "to all again"]
    assert alice.unread() == []
    assert len(carol.read(thread_id)["messages"]) == 3  # narrowed mail is not hidden from members


def test_a_role_narrows_a_thread_to_its_holders_among_the_members(node: ServerProcess, alice: Actor) -> None:
    role = alice.handle.strip("@")
    inside, outside = new_agent(node, "inside", role), new_agent(node, "outside", role)
    thread_id = alice.thread("plan", inside)
    alice.send(f"role:{role}", thread_id=thread_id)
    assert (len(inside.unread()), len(outside.unread())) == (1, 0)


def test_to_cannot_widen_a_thread(alice: Actor, bob: Actor, carol: Actor) -> None:
    thread_id = alice.thread("plan", bob)
    assert alice.send_refused("NOT_A_MEMBER", carol, thread_id=thread_id)["details"]["handle"] == carol.handle
    alice.send_refused("NO_RECIPIENTS", "role:nobody-has-this", thread_id=thread_id)
    alice.send_refused("RECIPIENT_UNKNOWN", "@nobody", thread_id=thread_id)
    carol.send_refused("THREAD_NOT_FOUND", thread_id=thread_id)
    assert bob.unread() == []


def test_a_reply_finds_its_own_way(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    role = alice.handle.strip("@")
    reviewers = [new_agent(node, "reviewer", role), new_agent(node, "reviewer", role)]
    asked = alice.send(f"role:{role}", body="who has time?")
    answer = reviewers[0].send(in_reply_to=asked["message_id"], body="I have")
    assert answer["thread_id"] == asked["thread_id"]
    assert alice.unread() == ["I have"]
    assert reviewers[1].unread() == ["who has time?"]  # an answer is for who asked, not for the whole role
    direct = alice.send(bob)
    assert bob.send(in_reply_to=direct["message_id"])["thread_id"] == direct["thread_id"]


def test_only_what_can_be_seen_can_be_replied_to(alice: Actor, bob: Actor, carol: Actor) -> None:
    posted = alice.send(bob)
    carol.send_refused("MESSAGE_NOT_FOUND", in_reply_to=posted["message_id"])
    carol.send_refused("MESSAGE_NOT_FOUND", bob, in_reply_to=posted["message_id"])
    carol.send_refused("MESSAGE_NOT_FOUND", bob, in_reply_to=NOWHERE)


def test_mail_without_an_address_is_refused(alice: Actor) -> None:
    alice.send_refused("INVALID_ARGUMENT")
    alice.send_refused("INVALID_ARGUMENT", to=[])
    alice.send_refused("INVALID_ARGUMENT", to="")
    alice.send_refused("INVALID_ARGUMENT", to=["@system"])
    alice.send_refused("INVALID_ARGUMENT", to=["everyone", alice.handle])


# -- idempotency ------------------------------------------------------------------------------------------------------


def test_the_same_key_and_payload_is_the_first_answer(alice: Actor, bob: Actor) -> None:
    first = alice.send(bob, idempotency_key="k", body="once", metadata={"a": 1, "b": 2})
    again = alice.send(bob, idempotency_key="k", body="once", metadata={"b": 2, "a": 1}, wait_seconds=0)
    claimed = alice.send(
        bob, idempotency_key="k", body="once", metadata={"a": 1, "b": 2}, sender=alice.handle, workspace_id="default"
    )
    assert first == again == claimed
    assert bob.unread() == ["once"]


@pytest.mark.guarantee("G-ONCE")
@pytest.mark.parametrize(
    ("path", "other"),
    [("/v1/threads", {"type": "incident"}), ("/v1/agents", {"display_name": "x"}), ("/v1/tokens", {"note": "x"})],
)
def test_repeating_a_claim_makes_no_other_payload(
    node: ServerProcess, alice: Actor, path: str, other: dict[str, str]
) -> None:
    me, key = operator(node), new_name("key")
    named = new_name("new") if path == "/v1/agents" else alice.handle
    wanted: dict[str, Any] = {"title": "plan"} if path == "/v1/threads" else {"handle": named}
    first = me.post(path, **wanted, idempotency_key=key)
    assert me.post(path, **wanted, idempotency_key=key, agent_id=HUMAN, workspace_id="default") == first
    me.refused("IDEMPOTENCY_CONFLICT", "POST", path, **wanted, **other, idempotency_key=key)


def test_the_same_key_with_another_payload_is_a_conflict(alice: Actor, bob: Actor, carol: Actor) -> None:
    posted = alice.send(bob, idempotency_key="k", body="once")
    error = alice.send_refused("IDEMPOTENCY_CONFLICT", bob, idempotency_key="k", body="twice")
    assert error["details"]["subject"] == posted["message_id"]
    alice.send_refused("IDEMPOTENCY_CONFLICT", carol, idempotency_key="k", body="once")
    assert (bob.unread(), carol.unread()) == (["once"], [])


def test_a_key_belongs_to_its_sender_and_its_operation(alice: Actor, bob: Actor, carol: Actor) -> None:
    alice.send(carol, idempotency_key="k", body="of alice")
    bob.send(carol, idempotency_key="k", body="of bob")
    alice.thread("plan", idempotency_key="k")
    assert carol.unread() == ["of alice", "of bob"]


def test_two_posts_with_one_key_at_once_are_one(alice: Actor, bob: Actor) -> None:
    for turn in range(5):
        post = functools.partial(alice.send, bob, idempotency_key=f"at once {turn}", body=str(turn))
        answers = statuses(*[post] * 4)
        assert all(answer == answers[0] for answer in answers)
    assert bob.unread() == ["0", "1", "2", "3", "4"]


def test_two_payloads_with_one_key_at_once_are_one_and_conflicts(alice: Actor, bob: Actor) -> None:
    calls = [
        lambda body=body: alice.call(
            "POST", "/v1/messages", {"to": [bob.handle], "body": body, "idempotency_key": "contested"}
        )
        for body in ("a", "b", "c", "d")
    ]
    assert sorted(answer.status for answer in statuses(*calls)) == [201, 409, 409, 409]
    assert bob.inbox()["unread"] == 1


@pytest.mark.guarantee("G-NO-TRACE")
def test_a_refused_post_does_not_use_up_its_key(node: ServerProcess, alice: Actor) -> None:
    nobody = f"@not-yet-{alice.handle[1:]}"
    alice.send_refused("RECIPIENT_UNKNOWN", nobody, idempotency_key="k")
    operator(node).post("/v1/agents", handle=nobody, token=False)
    alice.send(nobody, idempotency_key="k")


# -- freshness --------------------------------------------------------------------------------------------------------


def test_expired_mail_is_not_unread_and_says_so(alice: Actor, bob: Actor) -> None:
    posted = alice.send(bob, body="too late", expires_at=soon(-1))
    alice.send(bob, body="in time", expires_at=soon(3600))
    inbox = bob.inbox()
    assert (inbox["unread"], [one["body"] for one in inbox["messages"]]) == (1, ["in time"])
    states = {one["body"]: one["state"] for one in bob.read(posted["thread_id"])["messages"]}
    assert states == {"too late": "expired", "in time": "current"}
    assert bob.message(posted["message_id"])["state"] == "expired"
    assert [one["body"] for one in bob.mail(state="all")] == ["too late", "in time"]


@pytest.mark.guarantee("G-FRESH")
def test_mail_expires_by_the_clock_and_not_by_the_sweeper(alice: Actor, bob: Actor) -> None:
    alice.send(bob, expires_at=soon(0.3))
    assert bob.inbox()["unread"] == 1
    deadline = time.monotonic() + 10
    while bob.inbox()["unread"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert bob.mail() == []


@pytest.mark.parametrize(
    "when",
    [
        "2026-01-31T12:00:00",
        "tomorrow",
        "",
        5,
        "9999-12-31T23:59:59-14:00",
        "0001-01-01T00:00:00+14:00",
        "2026-13-01T00:00:00Z",
    ],
)
def test_an_expiry_that_is_no_instant_is_refused(alice: Actor, bob: Actor, when: Any) -> None:
    alice.send_refused("INVALID_ARGUMENT", bob, expires_at=when)
    assert bob.mail(state="all") == []


@pytest.mark.parametrize("when", ["9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z"])
def test_the_first_and_the_last_instant_can_be_read_back(alice: Actor, bob: Actor, when: str) -> None:
    posted = alice.send(bob, expires_at=when)
    assert bob.message(posted["message_id"])["expires_at"] == when


def test_what_was_superseded_gives_way_to_what_supersedes_it(alice: Actor, bob: Actor) -> None:
    old = alice.send(bob, body="at three")
    new = alice.send(bob, body="at four", supersedes=old["message_id"])
    assert bob.unread() == ["at four"]
    shown = bob.message(old["message_id"])
    assert (shown["state"], shown["superseded_by"], shown["body"]) == ("superseded", new["message_id"], "at three")
    assert bob.message(new["message_id"])["supersedes"] == old["message_id"]
    error = alice.send_refused("ALREADY_REPLACED", bob, supersedes=old["message_id"])
    assert error["details"]["superseded_by"] == new["message_id"]
    assert bob.inbox()["unread"] == 1


def test_only_the_sender_supersedes(alice: Actor, bob: Actor, carol: Actor) -> None:
    posted = alice.send(bob, carol)
    bob.send_refused("MESSAGE_NOT_FOUND", alice, supersedes=posted["message_id"])
    assert bob.message(posted["message_id"])["state"] == "current"


def test_what_nobody_has_read_can_be_taken_back(alice: Actor, bob: Actor) -> None:
    posted = alice.send(bob, body="wrong", subject="secret", metadata={"a": 1})
    assert bob.unread() == ["wrong"]  # seen is not read
    shown = alice.post(f"/v1/messages/{posted['message_id']}/retract", reason="typo")
    assert (shown["state"], shown["body"], shown["subject"], shown["metadata"]) == ("retracted", "", None, None)
    assert bob.inbox()["unread"] == 0
    [entry] = bob.read(posted["thread_id"])["messages"]
    assert (entry["state"], entry["body"], entry["receipt"]["lapsed"]) == ("retracted", "", "retracted")
    assert alice.post(f"/v1/messages/{posted['message_id']}/retract")["state"] == "retracted"  # twice is once


def test_what_somebody_has_read_stays(alice: Actor, bob: Actor, carol: Actor) -> None:
    posted = alice.send(bob, carol, body="too late to take back")
    bob.ack(posted["message_id"])
    error = alice.refused("ALREADY_READ", "POST", f"/v1/messages/{posted['message_id']}/retract")
    assert error["details"]["readers"] == [bob.handle]
    assert carol.unread() == ["too late to take back"]


def test_only_the_sender_or_a_human_takes_back(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    posted = alice.send(bob)
    bob.refused("MESSAGE_NOT_FOUND", "POST", f"/v1/messages/{posted['message_id']}/retract")
    assert operator(node).post(f"/v1/messages/{posted['message_id']}/retract")["state"] == "retracted"


# -- ask --------------------------------------------------------------------------------------------------------------


def test_an_ask_answers_with_the_first_reply(alice: Actor, bob: Actor) -> None:
    def answer() -> None:
        while not (mail := bob.mail()):
            time.sleep(0.02)
        bob.send(in_reply_to=mail[0]["message_id"], body="42")
        bob.send(in_reply_to=mail[0]["message_id"], body="no, 43")

    thread = threading.Thread(target=answer)
    thread.start()
    asked = alice.send(bob, body="how many?", wait_seconds=20)
    thread.join()
    assert (asked["reply"]["body"], asked["reply"]["sender"]) == ("42", bob.handle)
    assert asked["reply"]["in_reply_to"] == asked["message_id"]
    assert set(asked["reply"]) == {*MESSAGE_FIELDS, "chain"}
    assert asked["reply"]["chain"] == {"root": asked["message_id"], "hops": [alice.handle]}
    assert alice.inbox()["unread"] == 2  # an answer that was shown is seen, not read
    assert alice.mail()[0]["receipt"]["seen_at"] is not None


def test_an_ask_without_an_answer_ends_in_time(alice: Actor, bob: Actor) -> None:
    began = time.monotonic()
    asked = alice.send(bob, wait_seconds=0.3)
    assert asked["reply"] is None
    assert 0.2 < time.monotonic() - began < 10
    assert bob.inbox()["unread"] == 1


def test_asking_again_with_the_same_key_finds_the_answer_that_came_meanwhile(alice: Actor, bob: Actor) -> None:
    asked = alice.send(bob, body="how many?", wait_seconds=0.01, idempotency_key="q")
    bob.send(in_reply_to=asked["message_id"], body="42")
    again = alice.send(bob, body="how many?", wait_seconds=20, idempotency_key="q")
    assert (again["message_id"], again["reply"]["body"]) == (asked["message_id"], "42")


@pytest.mark.guarantee("G-VISIBLE")
def test_an_answer_that_the_asker_cannot_see_is_not_leaked(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    lead, carol = new_agent(node, "lead", "coordinator"), new_agent(node, "carol")
    asked = alice.send(bob, body="how many?", wait_seconds=0.01, idempotency_key="q")
    bob.send(carol, in_reply_to=asked["message_id"], body="between us")  # in their conversation, not in alice's
    lead.send(carol, in_reply_to=asked["message_id"], body="between us too")
    alice.send(in_reply_to=asked["message_id"], body="anybody?")  # one's own words are no answer
    again = alice.send(bob, body="how many?", wait_seconds=0.2, idempotency_key="q")
    assert again["reply"] is None


@pytest.mark.parametrize("seconds", [-1, 50.1, 1e9, "5", None])
def test_an_ask_waits_at_most_fifty_seconds(alice: Actor, bob: Actor, seconds: Any) -> None:
    alice.send_refused("INVALID_ARGUMENT", bob, wait_seconds=seconds)


# -- claims -----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-SENDER")
@pytest.mark.parametrize("field", ["sender", "from", "agent_id"])
def test_a_field_that_names_another_sender_is_refused(alice: Actor, bob: Actor, field: str) -> None:
    error = alice.send_refused("CLAIM_MISMATCH", bob, **{field: bob.handle})
    assert error["details"]["field"] == field
    alice.send(bob, **{field: alice.handle})
    assert bob.inbox()["unread"] == 1


@pytest.mark.guarantee("G-SENDER")
def test_a_field_that_names_another_workspace_or_session_is_refused(
    node: ServerProcess, alice: Actor, bob: Actor
) -> None:
    alice.send_refused("WORKSPACE_MISMATCH", bob, workspace_id="elsewhere")
    alice.send_refused("CLAIM_MISMATCH", bob, session_id="s-1")
    session = new_token(node, alice.handle, session_id="s-1")
    session.send_refused("CLAIM_MISMATCH", bob, session_id="s-2")
    assert bob.message(session.send(bob, session_id="s-1")["message_id"])["session_id"] == "s-1"
    assert bob.message(session.send(bob)["message_id"])["session_id"] == "s-1"


@pytest.mark.guarantee("G-SENDER")
def test_an_agent_cannot_speak_as_the_system(alice: Actor, bob: Actor) -> None:
    alice.send_refused("ROLE_FORBIDDEN", bob, kind="system")
    alice.send_refused("RESTRICTED_TAG", bob, tags=["override"])
