from __future__ import annotations

import pytest

from tests.faces.http_calls import HUMAN, NOWHERE, Actor, new_agent, new_token, operator
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
def lead(node: ServerProcess) -> Actor:
    return new_agent(node, "lead", "coordinator")


def members(actor: Actor, thread_id: str) -> set[str]:
    return {member["handle"] for member in actor.get(f"/v1/threads/{thread_id}")["members"]}


def status(actor: Actor, thread_id: str, status: str, **fields: object) -> dict[str, object]:
    changed: dict[str, object] = actor.post(f"/v1/threads/{thread_id}/status", status=status, **fields)
    return changed


# -- threads and members ----------------------------------------------------------------------------------------------


def test_a_thread_is_made_once_per_key(alice: Actor, bob: Actor) -> None:
    made = alice.post("/v1/threads", title="plan", members=[bob.handle, bob.handle, alice.handle], idempotency_key="t")
    again = alice.post("/v1/threads", title="plan", members=[bob.handle, bob.handle, alice.handle], idempotency_key="t")
    assert made == again
    assert set(made) == {
        "thread_id", "type", "status", "title", "created_by", "coordinator", "escalation_owner", "last_seq",
        "created_at", "updated_at", "closed_at", "members",
    }  # fmt: skip
    assert (made["type"], made["status"], made["created_by"], made["last_seq"]) == (
        "conversation",
        "active",
        alice.handle,
        0,
    )
    assert members(bob, made["thread_id"]) == {alice.handle, bob.handle}
    alice.refused("IDEMPOTENCY_CONFLICT", "POST", "/v1/threads", title="other", idempotency_key="t")


def test_a_thread_needs_members_who_exist(alice: Actor, bob: Actor, node: ServerProcess) -> None:
    for nobody in ("@nobody-at-all", "@system", "@everyone", "@me"):
        alice.refused("AGENT_NOT_FOUND", "POST", "/v1/threads", title="plan", members=[bob.handle, nobody])
        alice.refused("AGENT_NOT_FOUND", "POST", "/v1/threads", title="plan", coordinator=nobody)
    operator(node).do("PATCH", f"/v1/agents/{bob.handle}", retired=True)
    alice.refused("AGENT_NOT_FOUND", "POST", "/v1/threads", title="plan", members=[bob.handle])
    alice.refused("INVALID_ARGUMENT", "POST", "/v1/threads", title="work", type="workflow")
    assert alice.get("/v1/threads")["threads"] == []


@pytest.mark.guarantee("G-VISIBLE")
def test_a_thread_is_there_for_its_members_only(alice: Actor, bob: Actor, carol: Actor, lead: Actor) -> None:
    thread_id = alice.thread("plan", bob)
    alice.send(thread_id=thread_id)
    for path in ("", "/messages", "/summary"):
        carol.refused("THREAD_NOT_FOUND", "GET", f"/v1/threads/{thread_id}{path}")
        carol.refused("THREAD_NOT_FOUND", "GET", f"/v1/threads/{NOWHERE}{path}")
        lead.get(f"/v1/threads/{thread_id}{path}")
    for path, body in (
        ("ack", {"last_read_seq": 1}),
        ("status", {"status": "resolved"}),
        ("members", {"members": [carol.handle]}),
    ):
        carol.refused("THREAD_NOT_FOUND", "POST", f"/v1/threads/{thread_id}/{path}", **body)
    carol.refused("THREAD_NOT_FOUND", "DELETE", f"/v1/threads/{thread_id}/members", members=[bob.handle])
    assert thread_id not in [one["thread_id"] for one in carol.get("/v1/threads")["threads"]]
    assert thread_id in [one["thread_id"] for one in lead.get("/v1/threads", limit=500)["threads"]]
    assert lead.post(f"/v1/threads/{thread_id}/ack", last_read_seq=1)["last_read_seq"] == 0


def test_threads_are_listed_newest_first_page_by_page(alice: Actor, bob: Actor) -> None:
    made = [alice.thread(str(n), bob, type="incident" if n % 2 else "conversation") for n in range(5)]
    status(alice, made[1], "resolved")
    page = bob.get("/v1/threads", limit=2)
    seen = [one["thread_id"] for one in page["threads"]]
    while page["has_more"]:
        page = bob.get("/v1/threads", limit=2, after=page["next"])
        seen += [one["thread_id"] for one in page["threads"]]
    assert seen == made[::-1]
    assert [one["thread_id"] for one in bob.get("/v1/threads", type="incident")["threads"]] == [made[3], made[1]]
    assert [one["thread_id"] for one in bob.get("/v1/threads", status="resolved")["threads"]] == [made[1]]


def test_a_late_member_reads_the_history_and_has_no_receipts_for_it(alice: Actor, bob: Actor, carol: Actor) -> None:
    thread_id = alice.thread("plan", bob)
    alice.send(thread_id=thread_id, body="early")
    alice.post(f"/v1/threads/{thread_id}/members", members=[carol.handle])
    alice.send(thread_id=thread_id, body="late")
    history = carol.read(thread_id)["messages"]
    assert [(one["body"], one["receipt"] is not None) for one in history] == [
        ("early", False),
        (f"{alice.handle} added {carol.handle}.", True),
        ("late", True),
    ]
    assert carol.unread() == [f"{alice.handle} added {carol.handle}.", "late"]
    assert history[1]["kind"] == "system"
    assert history[1]["wake_policy"] == "silent"


@pytest.mark.guarantee("G-VISIBLE")
def test_who_has_left_reads_no_more_and_may_come_back(alice: Actor, bob: Actor, carol: Actor) -> None:
    thread_id = alice.thread("plan", bob, carol)
    before = alice.send(thread_id=thread_id, body="before")
    left = bob.do("DELETE", f"/v1/threads/{thread_id}/members", members=[bob.handle])
    assert ({one["handle"] for one in left["members"]}, left["last_seq"]) == ({alice.handle, carol.handle}, 2)
    after = alice.send(thread_id=thread_id, body="after")
    bob.refused("MESSAGE_NOT_FOUND", "GET", f"/v1/messages/{after['message_id']}")
    bob.refused("THREAD_NOT_FOUND", "GET", f"/v1/threads/{thread_id}/messages")
    bob.send_refused("THREAD_NOT_FOUND", thread_id=thread_id)
    assert bob.unread() == ["before"]  # what was sent to bob stays bob's
    assert bob.message(before["message_id"])["body"] == "before"
    alice.post(f"/v1/threads/{thread_id}/members", members=[bob.handle])
    assert "after" in [one["body"] for one in bob.read(thread_id)["messages"]]


def test_only_who_manages_a_thread_changes_its_members(
    alice: Actor, bob: Actor, carol: Actor, lead: Actor, node: ServerProcess
) -> None:
    thread_id = alice.thread("plan", bob)
    path = f"/v1/threads/{thread_id}/members"
    bob.refused("ROLE_FORBIDDEN", "POST", path, members=[carol.handle])
    bob.refused("ROLE_FORBIDDEN", "DELETE", path, members=[alice.handle])
    lead.post(path, members=[carol.handle])
    lead.do("DELETE", path, members=[carol.handle])
    operator(node).post(path, members=[carol.handle])
    assert members(alice, thread_id) == {alice.handle, bob.handle, carol.handle}
    alice.refused("AGENT_NOT_FOUND", "POST", path, members=["@nobody-at-all"])


def test_the_members_of_a_conversation_follow_from_its_address(alice: Actor, bob: Actor, carol: Actor) -> None:
    thread_id = alice.send(bob)["thread_id"]
    alice.refused("INVALID_THREAD_TRANSITION", "POST", f"/v1/threads/{thread_id}/members", members=[carol.handle])
    bob.refused("INVALID_THREAD_TRANSITION", "DELETE", f"/v1/threads/{thread_id}/members", members=[bob.handle])


# -- states -----------------------------------------------------------------------------------------------------------


def test_every_change_of_state_is_an_entry_in_the_thread(alice: Actor, bob: Actor, lead: Actor) -> None:
    thread_id = alice.thread("plan", bob)
    status(bob, thread_id, "blocked", reason="no key", escalation_owner=lead.handle)
    status(lead, thread_id, "active")
    status(bob, thread_id, "resolved")
    status(bob, thread_id, "resolved", reason="twice is once")
    closed = status(lead, thread_id, "closed")
    assert closed["closed_at"] is not None
    entries = alice.read(thread_id)["messages"]
    assert [(one["metadata"]["from"], one["metadata"]["to"]) for one in entries] == [
        ("active", "blocked"),
        ("blocked", "active"),
        ("active", "resolved"),
        ("resolved", "closed"),
    ]
    assert {one["kind"] for one in entries} == {"system"}
    assert entries[0]["body"] == f"{bob.handle} changed the status from active to blocked: no key"
    assert entries[0]["metadata"]["escalation_owner"] == lead.handle
    assert alice.inbox()["unread"] == 4  # each was told
    assert [one["metadata"]["to"] for one in bob.mail()] == ["active", "closed"]  # but nobody is told what they did


def test_an_owned_escalation_is_unblocked_by_its_owner_or_an_override(
    alice: Actor, bob: Actor, lead: Actor, node: ServerProcess
) -> None:
    thread_id = alice.thread("plan", bob)
    blocked = status(alice, thread_id, "blocked", escalation_owner=bob.handle)
    assert blocked["escalation_owner"] == bob.handle
    path = f"/v1/threads/{thread_id}/status"
    alice.refused("OVERRIDE_REQUIRED", "POST", path, status="active")
    alice.refused("OVERRIDE_REQUIRED", "POST", path, status="blocked", escalation_owner=alice.handle)
    lead.refused("OVERRIDE_REQUIRED", "POST", path, status="active")
    lead.refused("OVERRIDE_REQUIRED", "POST", path, status="active", override=True)
    alice.refused("ROLE_FORBIDDEN", "POST", path, status="active", override=True, reason="please")
    active = status(lead, thread_id, "active", override=True, reason="bob is away")
    assert active["escalation_owner"] is None
    [*_, entry] = alice.read(thread_id)["messages"]
    assert entry["metadata"]["override"] is True
    status(alice, thread_id, "blocked", escalation_owner=bob.handle)
    assert status(bob, thread_id, "active")["status"] == "active"
    status(alice, thread_id, "blocked", escalation_owner=bob.handle)
    operator(node).refused("OVERRIDE_REQUIRED", "POST", path, status="closed")
    assert status(operator(node), thread_id, "closed", override=True, reason="obsolete")["status"] == "closed"


def test_an_escalation_goes_to_somebody_who_can_answer(alice: Actor, bob: Actor, node: ServerProcess) -> None:
    thread_id = alice.thread("plan", bob)
    path = f"/v1/threads/{thread_id}/status"
    for nobody in ("@nobody-at-all", "@system"):
        alice.refused("AGENT_NOT_FOUND", "POST", path, status="blocked", escalation_owner=nobody)
    alice.refused("INVALID_ARGUMENT", "POST", path, status="resolved", escalation_owner=bob.handle)
    status(alice, thread_id, "blocked", escalation_owner=HUMAN)
    assert HUMAN in members(alice, thread_id)
    assert any(one["thread_id"] == thread_id for one in operator(node).mail())


def test_a_participant_cannot_close(alice: Actor, bob: Actor) -> None:
    thread_id = alice.thread("plan", bob)
    error = alice.refused("ROLE_FORBIDDEN", "POST", f"/v1/threads/{thread_id}/status", status="closed")
    assert error["details"]["rule"] == "close_thread"


@pytest.mark.guarantee("G-STATES")
def test_nothing_changes_in_a_closed_thread(alice: Actor, bob: Actor, carol: Actor, lead: Actor) -> None:
    thread_id = alice.thread("plan", bob)
    posted = alice.send(thread_id=thread_id)
    status(lead, thread_id, "closed")
    last_seq = alice.get(f"/v1/threads/{thread_id}")["last_seq"]
    alice.send_refused("THREAD_CLOSED", thread_id=thread_id)
    bob.send_refused("THREAD_CLOSED", in_reply_to=posted["message_id"])
    for wanted in ("active", "blocked", "resolved"):
        lead.refused("INVALID_THREAD_TRANSITION", "POST", f"/v1/threads/{thread_id}/status", status=wanted)
    lead.refused("THREAD_CLOSED", "POST", f"/v1/threads/{thread_id}/members", members=[carol.handle])
    bob.refused("THREAD_CLOSED", "DELETE", f"/v1/threads/{thread_id}/members", members=[bob.handle])
    assert alice.get(f"/v1/threads/{thread_id}")["last_seq"] == last_seq
    bob.post(f"/v1/threads/{thread_id}/ack", last_read_seq=last_seq)  # but what was said can still be read


def test_a_closed_conversation_gives_way_to_a_new_one(alice: Actor, bob: Actor, lead: Actor) -> None:
    first = alice.send(bob)["thread_id"]
    status(lead, first, "closed")
    second = alice.send(bob)["thread_id"]
    assert second != first
    assert bob.send(alice)["thread_id"] == second


# -- workflows --------------------------------------------------------------------------------------------------------


def test_a_human_who_writes_to_a_worker_silently_tells_its_coordinator(
    node: ServerProcess, alice: Actor, bob: Actor, lead: Actor
) -> None:
    workflow = lead.thread("release", alice, type="workflow", coordinator=lead.handle)
    posted = operator(node).send(alice, body="how is it going?")
    [entry] = lead.mail()
    assert (entry["thread_id"], entry["sender"], entry["wake_policy"]) == (workflow, "@system", "silent")
    assert entry["metadata"]["message_id"] == posted["message_id"]
    assert "how is it going?" not in entry["body"]
    bob.send(alice)  # an agent who does the same
    operator(node).send(bob)  # a human to somebody else
    operator(node).send(alice, lead)  # a human who includes the coordinator
    assert [one["thread_id"] == workflow for one in lead.mail()] == [True, False]
    asked = alice.send(HUMAN, body="may I?")
    operator(node).send(in_reply_to=asked["message_id"], body="yes")
    operator(node).send(thread_id=asked["thread_id"], body="go on")
    assert [one["thread_id"] == workflow for one in lead.mail()] == [True, False, True, True]
    operator(node).send(thread_id=workflow)  # what is said in the workflow needs no second word
    status(lead, workflow, "resolved")
    operator(node).send(alice)
    assert len(lead.mail()) == 5


# -- summary ----------------------------------------------------------------------------------------------------------


def test_a_summary_needs_no_model(alice: Actor, bob: Actor, carol: Actor) -> None:
    thread_id = alice.thread("release", bob, carol)
    asked = alice.send(thread_id=thread_id, body="Ready?")
    alice.send(thread_id=thread_id, body="And the docs?")
    bob.send(in_reply_to=asked["message_id"], body="Decision: we ship on Friday")
    bob.post(f"/v1/threads/{thread_id}/ack", last_read_seq=2)
    summary = carol.get(f"/v1/threads/{thread_id}/summary")
    assert [one["text"] for one in summary["open_questions"]] == ["And the docs?"]
    assert [one["text"] for one in summary["decisions"]] == ["Decision: we ship on Friday"]
    assert summary["participants"] == [
        {"handle": alice.handle, "messages": 2, "last_read_seq": 0},
        {"handle": bob.handle, "messages": 1, "last_read_seq": 2},
        {"handle": carol.handle, "messages": 0, "last_read_seq": 0},
    ]
    assert (summary["messages"], summary["summarised_from_seq"]) == (3, 1)
    assert summary == bob.get(f"/v1/threads/{thread_id}/summary")


def test_the_summary_of_an_empty_thread_is_a_summary(alice: Actor) -> None:
    summary = alice.get(f"/v1/threads/{alice.thread('nothing yet')}/summary")
    assert (summary["messages"], summary["open_questions"], summary["first_at"]) == (0, [], None)


# -- roles of a token -------------------------------------------------------------------------------------------------


def test_a_token_acts_in_the_role_it_was_made_for(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    both = new_agent(node, "both", "participant", "coordinator")
    as_lead = new_token(node, both.handle, role="coordinator")
    thread_id = alice.thread("plan", bob)
    both.refused("THREAD_NOT_FOUND", "GET", f"/v1/threads/{thread_id}")
    assert as_lead.get(f"/v1/threads/{thread_id}")["thread_id"] == thread_id
