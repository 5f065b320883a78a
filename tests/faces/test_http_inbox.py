from __future__ import annotations

from typing import Any

import pytest

from tests.faces.http_calls import NOWHERE, Actor, new_agent, operator
from wakeline.testing.server import ServerProcess


@pytest.fixture
def alice(node: ServerProcess) -> Actor:
    return new_agent(node, "alice")


@pytest.fixture
def bob(node: ServerProcess) -> Actor:
    return new_agent(node, "bob")


def fill(sender: Actor, receiver: Actor) -> list[str]:
    """Mail of every priority and many sizes; answers the bodies in the order in which the inbox must show them."""
    bodies: dict[str, list[str]] = {"high": [], "normal": [], "low": []}
    for n in range(24):
        priority = ("normal", "low", "high", "normal")[n % 4]
        body = f"{priority} {n} " + "x" * (n * 37)
        sender.send(receiver, body=body, priority=priority, metadata={"n": "y" * n} if n % 3 else None)
        bodies[priority].append(body)
    return [*bodies["high"], *bodies["normal"], *bodies["low"]]


# -- reading ----------------------------------------------------------------------------------------------------------


def test_urgent_mail_comes_first_and_equals_in_the_order_sent(alice: Actor, bob: Actor) -> None:
    assert fill(alice, bob) == bob.unread()


@pytest.mark.guarantee("G-UNREAD")
@pytest.mark.parametrize("query", [{"limit": 1}, {"limit": 7}, {"limit": 500}, {"max_tokens": 1}, {"max_tokens": 200}])
def test_shown_unread_is_what_paging_returns(alice: Actor, bob: Actor, query: dict[str, int]) -> None:
    bodies = fill(alice, bob)
    bob.ack(bob.mail()[3]["message_id"])
    del bodies[3]
    shown = bob.inbox()["unread"]
    mail = bob.mail(**query)
    assert shown == len(mail) == len(bodies)
    for body, message in zip(bodies, mail, strict=True):
        assert body.startswith(message["body"]) if message["body_truncated"] else body == message["body"]


def test_a_budget_is_kept_and_still_gets_on(alice: Actor, bob: Actor) -> None:
    alice.send(bob, body="a" * 10_000)
    alice.send(bob, body="b" * 100)
    alice.send(bob, body="c" * 100)
    first = bob.inbox(max_tokens=200)
    assert [(len(one["body"]), one["body_truncated"]) for one in first["messages"]] == [((200 - 60) * 4, True)]
    assert first["has_more"]
    rest = bob.inbox(max_tokens=200, after=first["next"])
    assert [(one["body"][0], one["body_truncated"]) for one in rest["messages"]] == [("b", False), ("c", False)]
    thread = bob.read(first["messages"][0]["thread_id"], max_tokens=200)
    assert (len(thread["messages"]), thread["next_seq"], thread["has_more"]) == (1, 1, True)


def test_a_budget_counts_metadata(alice: Actor, bob: Actor) -> None:
    for _ in range(3):
        alice.send(bob, metadata={"log": "z" * 4000})
    page = bob.inbox(max_tokens=2400)
    assert (len(page["messages"]), page["has_more"]) == (2, True)


@pytest.mark.guarantee("G-UNREAD")
def test_mail_that_arrives_while_paging_is_not_lost(alice: Actor, bob: Actor) -> None:
    for n in range(4):
        alice.send(bob, body=str(n))
    first = bob.inbox(limit=2)
    alice.send(bob, body="4")
    alice.send(bob, body="urgent", priority="high")
    rest = bob.mail(after=first["next"])
    assert [one["body"] for one in rest] == ["2", "3", "4"]
    assert bob.unread()[0] == "urgent"


@pytest.mark.parametrize("after", ["", "x", "0", "0.0", "9.9.9", "0.0.-1", "0.0.1\n", "0.0." + "1" * 19, "a" * 65])
def test_a_page_that_is_none_is_refused(bob: Actor, after: str) -> None:
    bob.refused("INVALID_ARGUMENT", "GET", f"/v1/inbox?after={after}".replace("\n", "%0A"))


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=501", "limit=x", "limit=1.5", "max_tokens=0", "state=read", "of=bob", "what=1", "limit="],
)
def test_a_question_that_is_none_is_refused(bob: Actor, query: str) -> None:
    bob.refused("INVALID_ARGUMENT", "GET", f"/v1/inbox?{query}")


# -- what the receiver did --------------------------------------------------------------------------------------------


def test_seen_is_automatic_and_read_is_explicit(alice: Actor, bob: Actor) -> None:
    posted = alice.send(bob)
    [receipt] = alice.message(posted["message_id"])["receipts"]
    assert (receipt["recipient"], receipt["seen_at"], receipt["read_at"]) == (bob.handle, None, None)
    bob.inbox()
    [receipt] = alice.message(posted["message_id"])["receipts"]
    assert receipt["seen_at"] is not None
    assert receipt["read_at"] is None
    assert bob.inbox()["unread"] == 1
    assert bob.ack(posted["message_id"]) == {"acked": 1, "unread": 0}
    [receipt] = alice.message(posted["message_id"])["receipts"]
    assert receipt["read_at"] is not None


@pytest.mark.guarantee("G-READ-FORWARD")
def test_what_was_read_stays_read(alice: Actor, bob: Actor) -> None:
    first, second = alice.send(bob)["message_id"], alice.send(bob)["message_id"]
    assert bob.ack(first, first) == {"acked": 1, "unread": 1}
    before = bob.message(first)["receipt"]
    assert bob.ack(first) == {"acked": 0, "unread": 1}
    bob.inbox(state="all")
    assert bob.message(first)["receipt"] == before
    assert bob.post("/v1/inbox/archive", message_ids=[first, second]) == {"archived": 2, "unread": 0}
    archived = bob.message(first)["receipt"]
    assert {**archived, "archived_at": None} == before
    assert bob.ack(first, second) == {"acked": 0, "unread": 0}
    assert bob.post("/v1/inbox/archive", message_ids=[first]) == {"archived": 0, "unread": 0}
    assert [one["message_id"] for one in bob.mail(state="archived")] == [first, second]
    assert bob.message(second)["receipt"]["read_at"] is not None  # archived mail is read mail


@pytest.mark.guarantee("G-READ-FORWARD")
def test_a_thread_is_acknowledged_up_to_a_seq_and_never_back(alice: Actor, bob: Actor) -> None:
    thread_id = [alice.send(bob, body=str(n))["thread_id"] for n in range(1, 6)].pop()
    assert bob.post(f"/v1/threads/{thread_id}/ack", last_read_seq=3) == {"last_read_seq": 3, "unread": 2}
    assert bob.unread() == ["4", "5"]
    assert bob.post(f"/v1/threads/{thread_id}/ack", last_read_seq=1) == {"last_read_seq": 3, "unread": 2}
    assert bob.post(f"/v1/threads/{thread_id}/ack", last_read_seq=0) == {"last_read_seq": 3, "unread": 2}
    error = bob.refused("NOT_WRITTEN_YET", "POST", f"/v1/threads/{thread_id}/ack", last_read_seq=6)
    assert error["details"]["last_seq"] == 5
    members = {one["handle"]: one["last_read_seq"] for one in alice.get(f"/v1/threads/{thread_id}")["members"]}
    assert members == {alice.handle: 0, bob.handle: 3}
    assert bob.post(f"/v1/threads/{thread_id}/ack", last_read_seq=5) == {"last_read_seq": 5, "unread": 0}


@pytest.mark.guarantee("G-VISIBLE")
@pytest.mark.parametrize("door", ["/v1/inbox/ack", "/v1/inbox/archive"])
def test_nobody_acknowledges_the_mail_of_others(alice: Actor, bob: Actor, node: ServerProcess, door: str) -> None:
    posted = alice.send(bob)["message_id"]
    mine = bob.send(alice)["message_id"]
    for stranger in (alice, new_agent(node, "carol"), new_agent(node, "lead", "coordinator"), operator(node)):
        error = stranger.refused("MESSAGE_NOT_FOUND", "POST", door, message_ids=[posted])
        assert error["details"]["message_id"] == posted
    alice.refused("MESSAGE_NOT_FOUND", "POST", door, message_ids=[mine, posted])
    alice.refused("MESSAGE_NOT_FOUND", "POST", door, message_ids=[mine, NOWHERE])
    assert (bob.inbox()["unread"], alice.inbox()["unread"]) == (1, 1)  # all of them or none


@pytest.mark.parametrize("ids", [[], ["x"], [NOWHERE] * 501, "x", None, [None]])
def test_an_acknowledgement_names_what_it_acknowledges(bob: Actor, ids: Any) -> None:
    bob.refused("INVALID_ARGUMENT", "POST", "/v1/inbox/ack", message_ids=ids)


@pytest.mark.guarantee("G-VISIBLE")
def test_nobody_reads_a_message_of_others(alice: Actor, bob: Actor, node: ServerProcess) -> None:
    posted = alice.send(bob)["message_id"]
    carol = new_agent(node, "carol")
    carol.refused("MESSAGE_NOT_FOUND", "GET", f"/v1/messages/{posted}")
    carol.refused("MESSAGE_NOT_FOUND", "GET", f"/v1/messages/{NOWHERE}")
    assert "receipts" in alice.message(posted)
    assert "receipts" not in bob.message(posted)


# -- looking into another's inbox -------------------------------------------------------------------------------------


def test_another_inbox_opens_by_a_grant_and_leaves_no_trace(alice: Actor, bob: Actor, node: ServerProcess) -> None:
    posted = alice.send(bob)
    error = alice.refused("GRANT_MISSING", "GET", f"/v1/inbox?of={bob.handle}")
    assert error["details"]["rule"] == "CAN_READ_INBOX_OF"
    grant = {"scope": "CAN_READ_INBOX_OF", "grantee": alice.handle, "owner": bob.handle}
    bob.post("/v1/grants", **grant)
    inbox = alice.inbox(of=bob.handle)
    assert (inbox["unread"], inbox["messages"][0]["message_id"]) == (1, posted["message_id"])
    assert operator(node).inbox(of=bob.handle)["unread"] == 1
    assert alice.message(posted["message_id"])["receipts"][0]["seen_at"] is None
    bob.refused("GRANT_MISSING", "GET", f"/v1/inbox?of={alice.handle}")  # it works one way
    bob.do("DELETE", "/v1/grants", **grant)
    alice.refused("GRANT_MISSING", "GET", f"/v1/inbox?of={bob.handle}")


@pytest.mark.guarantee("G-BLOCK")
def test_a_block_closes_an_inbox_that_a_grant_opened(alice: Actor, bob: Actor) -> None:
    bob.post("/v1/grants", scope="CAN_READ_INBOX_OF", grantee=alice.handle, owner=bob.handle)
    bob.post("/v1/blocks", blocked=alice.handle)
    alice.refused("BLOCKED", "GET", f"/v1/inbox?of={bob.handle}")


def test_the_list_of_agents_shows_what_each_has_unread(alice: Actor, bob: Actor) -> None:
    sent = [alice.send(bob, body=f"{n}") for n in range(3)]
    bob.post("/v1/inbox/ack", message_ids=[sent[0]["message_id"]])
    unread = {one["handle"]: one["unread"] for one in alice.get("/v1/agents")["agents"]}
    assert (unread[alice.handle], unread[bob.handle]) == (0, 2)


@pytest.mark.parametrize("nobody", ["@nobody-at-all", "@system", "@me"])
def test_who_is_not_there_has_no_inbox(node: ServerProcess, alice: Actor, bob: Actor, nobody: str) -> None:
    for actor in (operator(node), alice, new_agent(node, "auditor", "auditor")):
        actor.refused("AGENT_NOT_FOUND", "GET", f"/v1/inbox?of={nobody}")
    alice.send(bob, body="before")
    operator(node).do("PATCH", f"/v1/agents/{bob.handle}", retired=True)
    assert operator(node).inbox(of=bob.handle)["unread"] == 1  # what was sent to who left is still there
