from __future__ import annotations

from typing import Any

import pytest

from tests.faces.http_calls import HUMAN, NOWHERE, Actor, new_agent, new_name, new_token, operator
from tests.faces.listener import Listener
from wakeline.faces.http.operations import OPERATIONS
from wakeline.testing.server import ServerProcess


@pytest.fixture
def alice(node: ServerProcess) -> Actor:
    return new_agent(node, "alice")


@pytest.fixture
def bob(node: ServerProcess) -> Actor:
    return new_agent(node, "bob")


@pytest.fixture
def human(node: ServerProcess) -> Actor:
    """A human with a token, who is not the operator."""
    return new_token(node, HUMAN)


# -- what only the human may ------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-HUMAN")
@pytest.mark.parametrize("role", ["participant", "coordinator", "auditor", "reviewer"])
def test_no_agent_can_do_what_only_the_human_may(node: ServerProcess, alice: Actor, bob: Actor, role: str) -> None:
    agent = new_agent(node, "agent", role)
    before = operator(node).get("/v1/agents"), operator(node).get("/v1/tokens")
    for method, path, body in (
        ("POST", "/v1/agents", {"handle": new_name("puppet")}),
        ("POST", "/v1/agents", {"handle": new_name("puppet"), "kind": "human"}),
        ("PATCH", f"/v1/agents/{agent.handle}", {"roles": ["coordinator"]}),
        ("PATCH", f"/v1/agents/{alice.handle}", {"retired": True}),
        ("PATCH", f"/v1/agents/{HUMAN}", {"retired": True}),
        ("POST", "/v1/tokens", {"handle": agent.handle}),
        ("POST", "/v1/tokens", {"handle": HUMAN}),
        ("POST", "/v1/tokens", {"handle": alice.handle}),
        ("GET", f"/v1/tokens?handle={alice.handle}", None),
        ("POST", "/v1/grants", {"scope": "CAN_READ_INBOX_OF", "grantee": agent.handle, "owner": bob.handle}),
        ("POST", "/v1/blocks", {"blocker": alice.handle, "blocked": bob.handle}),
        ("POST", f"/v1/dead-letters/{NOWHERE}/redrive", None),
        ("POST", "/v1/prune", {"keep": 0}),
    ):
        assert agent.call(method, path, body).code == "ROLE_FORBIDDEN", (method, path)
    agent.refused("OPERATOR_REQUIRED", "POST", "/v1/workspaces", name="agents-own")
    assert (operator(node).get("/v1/agents"), operator(node).get("/v1/tokens")) == before


@pytest.mark.guarantee("G-HUMAN")
def test_a_human_on_the_network_is_not_the_operator(node: ServerProcess, human: Actor, alice: Actor) -> None:
    assert human.get("/v1/whoami")["operator"] is False
    human.refused("OPERATOR_REQUIRED", "POST", "/v1/workspaces", name="humans-own")
    human.refused("OPERATOR_REQUIRED", "POST", "/v1/agents", handle=new_name("other"), kind="human")
    human.refused("OPERATOR_REQUIRED", "POST", "/v1/tokens", handle=HUMAN)
    human.refused("OPERATOR_REQUIRED", "PATCH", f"/v1/agents/{HUMAN}", display_name="me")
    assert [one["name"] for one in human.get("/v1/workspaces")["workspaces"]] == ["default"]
    added = human.post("/v1/agents", handle=new_name("agent"))
    assert human.post("/v1/tokens", handle=added["handle"])["token"]
    human.post("/v1/prune", older_than_seconds=3_000_000_000)


def test_another_human_is_made_by_the_operator_and_has_a_humans_rights(node: ServerProcess, alice: Actor) -> None:
    name = new_name("carla")
    added = operator(node).post("/v1/agents", handle=name, kind="human", roles=["owner"])
    assert (added["kind"], added["role"], added["roles"]) == ("human", "human", ["human", "owner"])
    carla = Actor(node, name, added["token"])
    assert carla.get("/v1/whoami")["kind"] == "human"
    carla.post("/v1/agents", handle=new_name("agent"))
    alice.send("role:owner", body="for owners")
    assert "for owners" in carla.unread()
    changed = operator(node).do("PATCH", f"/v1/agents/{name}", roles=["tester"], display_name="Carla")
    assert (changed["roles"], changed["display_name"]) == (["human", "tester"], "Carla")


@pytest.mark.guarantee("G-HUMAN")
def test_the_role_of_humans_is_not_for_agents(node: ServerProcess, alice: Actor) -> None:
    operator(node).refused("ROLE_FORBIDDEN", "POST", "/v1/agents", handle=new_name("agent"), role="human")
    operator(node).refused("ROLE_FORBIDDEN", "PATCH", f"/v1/agents/{alice.handle}", roles=["human"])
    operator(node).refused("ROLE_FORBIDDEN", "POST", "/v1/tokens", handle=alice.handle, role="coordinator")
    operator(node).refused("ROLE_FORBIDDEN", "POST", "/v1/tokens", handle=alice.handle, role="human")


def test_nobody_becomes_the_system(node: ServerProcess) -> None:
    for reserved in ("@system", "@me", "@everyone"):
        operator(node).refused("INVALID_ARGUMENT", "POST", "/v1/agents", handle=reserved)
    operator(node).refused("ROLE_FORBIDDEN", "PATCH", "/v1/agents/@system", roles=["participant"])
    operator(node).refused("ROLE_FORBIDDEN", "PATCH", "/v1/agents/@system", retired=True)
    operator(node).refused("ROLE_FORBIDDEN", "POST", "/v1/tokens", handle="@system")


def test_nobody_retires_themselves(node: ServerProcess) -> None:
    operator(node).refused("INVALID_ARGUMENT", "PATCH", f"/v1/agents/{HUMAN}", retired=True)
    operator(node).refused("AGENT_NOT_FOUND", "PATCH", "/v1/agents/@nobody-at-all", retired=True)


# -- auditors ---------------------------------------------------------------------------------------------------------


def test_an_auditor_reads_everything(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    auditor = new_agent(node, "auditor", "auditor")
    start = auditor.get("/v1/status")["position"]
    with Listener(auditor) as stream:
        posted = alice.send(bob, body="private")
        assert stream.take_until("private")
    assert auditor.message(posted["message_id"])["receipts"][0]["recipient"] == bob.handle
    assert auditor.read(posted["thread_id"])["messages"][0]["body"] == "private"
    assert auditor.get("/v1/log", after=start)["events"][-1]["message"]["body"] == "private"
    assert alice.message(posted["message_id"])["receipts"][0]["seen_at"] is None


def _everything_that_writes(auditor: Actor, bob: Actor) -> dict[str, dict[str, Any] | None]:
    """For each operation that changes something: what an auditor would say to do it."""
    proof = {"harness": "pi", "transport": "extension", "version": "9", "verdicts": [{"level": "D4", "result": "pass"}]}
    return {
        "post_message": {"to": [bob.handle], "body": "x"},
        "retract_message": {},
        "create_thread": {"title": "x"},
        "add_members": {"members": [bob.handle]},
        "remove_members": {"members": [bob.handle]},
        "change_thread_status": {"status": "resolved"},
        "add_grant": {"scope": "CAN_REPLY_TO", "grantee": bob.handle, "owner": auditor.handle},
        "remove_grant": {"scope": "CAN_REPLY_TO", "grantee": bob.handle, "owner": auditor.handle},
        "add_block": {"blocked": bob.handle},
        "remove_block": {"blocked": bob.handle},
        "add_agent": {"handle": new_name("puppet")},
        "change_agent": {"retired": True},
        "create_token": {"handle": auditor.handle},
        "revoke_token": None,
        "redrive_dead_letter": None,
        "subscribe_wake": {"trigger": "SENT_TO_ME"},
        "update_wake_subscription": {"harness_target": "none"},
        "unsubscribe_wake": None,
        "resume_wake_subscription": None,
        "rotate_wake_key": None,
        "manage_wake_subscription": {"action": "subscribe", "trigger": "SENT_TO_ME"},
        "retry_delivery": None,
        "resync_wake_subscription": {"since_log_id": 0},
        "add_workspace": {"name": "auditors-own"},
        "prune_log": {"keep": 0},
        "record_proof": proof,
        "allow_activation": {"allow": "spawn"},
        "stop_activation": {},
    }


def test_an_auditor_writes_nothing(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    auditor = new_agent(node, "auditor", "auditor")
    posted = alice.send(bob)
    thread_id = alice.thread("plan", auditor, bob)
    before = operator(node).get("/v1/status")["position"]
    asked = _everything_that_writes(auditor, bob)
    own_affairs = {"ack_messages", "archive_messages", "ack_thread", "heartbeat_session", "end_session"}
    writing = {one.name: one for one in OPERATIONS if one.method != "GET" and not one.bridge}
    assert asked.keys() == writing.keys() - own_affairs
    for name, body in asked.items():
        path = writing[name].path.format(
            message_id=posted["message_id"],
            thread_id=thread_id,
            handle=bob.handle,
            jti=NOWHERE,
            dead_letter_id=NOWHERE,
            subscription_id=NOWHERE,
            delivery_id=NOWHERE,
            activation_id=NOWHERE,
        )
        answer = auditor.call(writing[name].method, path, body)
        hidden = ("TOKEN_NOT_FOUND", "SUBSCRIPTION_NOT_FOUND", "DELIVERY_NOT_FOUND")
        assert answer.code in ("ROLE_FORBIDDEN", "OPERATOR_REQUIRED", *hidden), name
    assert operator(node).get("/v1/status")["position"] == before


def test_an_auditor_deals_with_its_own_mail(node: ServerProcess, alice: Actor) -> None:
    auditor = new_agent(node, "auditor", "auditor")
    posted = alice.send(auditor)
    assert auditor.ack(posted["message_id"])["acked"] == 1


# -- roles and tokens -------------------------------------------------------------------------------------------------


def test_a_changed_role_counts_at_once(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    thread_id = alice.thread("plan")
    bob.refused("THREAD_NOT_FOUND", "GET", f"/v1/threads/{thread_id}")
    operator(node).do("PATCH", f"/v1/agents/{bob.handle}", roles=["coordinator", "participant"])
    as_lead = new_token(node, bob.handle)
    assert as_lead.get("/v1/whoami")["role"] == "coordinator"
    as_lead.get(f"/v1/threads/{thread_id}")
    operator(node).do("PATCH", f"/v1/agents/{bob.handle}", roles=["participant"])
    as_lead.refused("THREAD_NOT_FOUND", "GET", f"/v1/threads/{thread_id}")
    assert as_lead.get("/v1/whoami")["role"] == "participant"


def test_tokens_are_listed_without_their_text(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    made = operator(node).post("/v1/tokens", handle=alice.handle, note="laptop", seconds=3600)
    mine = alice.get("/v1/tokens")["tokens"]
    assert made["jti"] in [one["jti"] for one in mine]
    assert {one["handle"] for one in mine} == {alice.handle}
    assert made["token"] not in str(mine)
    assert "token" not in mine[0]
    assert operator(node).get("/v1/tokens", handle=alice.handle)["tokens"] == mine
    assert made["jti"] not in str(bob.get("/v1/tokens"))


def test_an_agent_revokes_its_own_token_and_no_other(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    made = operator(node).post("/v1/tokens", handle=alice.handle)
    spare = Actor(node, alice.handle, made["token"])
    bob.refused("ROLE_FORBIDDEN", "DELETE", f"/v1/tokens/{made['jti']}")
    bob.refused("TOKEN_NOT_FOUND", "DELETE", "/v1/tokens/never-seen")
    assert spare.call("GET", "/v1/whoami").status == 200
    alice.do("DELETE", f"/v1/tokens/{made['jti']}")
    assert spare.call("GET", "/v1/whoami").code == "TOKEN_REVOKED"


def test_an_agent_is_added_once_with_a_token_that_is_shown_once(node: ServerProcess) -> None:
    name = new_name("new")
    added = operator(node).post("/v1/agents", handle=name, role="reviewer", roles=["participant", "reviewer"])
    assert added["roles"] == ["reviewer", "participant"]
    assert (added["role"], added["kind"], added["retired_at"]) == ("reviewer", "agent", None)
    operator(node).refused("AGENT_EXISTS", "POST", "/v1/agents", handle=name)
    quiet = operator(node).post("/v1/agents", handle=new_name("quiet"), token=False)
    assert (quiet["token"], quiet["jti"], quiet["expires_at"]) == (None, None, None)
    assert added["token"] not in str(operator(node).get("/v1/agents"))


def test_an_agent_and_a_token_are_made_once_per_key(node: ServerProcess, human: Actor) -> None:
    name = new_name("once")
    added = operator(node).post("/v1/agents", handle=name, idempotency_key=f"add {name}")
    assert operator(node).post("/v1/agents", handle=name, idempotency_key=f"add {name}") == added
    other = {"handle": name, "role": "reviewer", "idempotency_key": f"add {name}"}
    operator(node).refused("IDEMPOTENCY_CONFLICT", "POST", "/v1/agents", **other)
    made = operator(node).post("/v1/tokens", handle=name, idempotency_key=f"token {name}")
    assert operator(node).post("/v1/tokens", handle=name, idempotency_key=f"token {name}") == made
    assert len(operator(node).get("/v1/tokens", handle=name)["tokens"]) == 2


def test_a_key_does_not_open_what_its_holder_may_not(node: ServerProcess, human: Actor) -> None:
    name = new_name("carla")
    body = {"handle": name, "kind": "human", "idempotency_key": f"add {name}"}
    operator(node).post("/v1/agents", **body)
    operator(node).post("/v1/tokens", handle=name, idempotency_key=f"token {name}")
    human.refused("OPERATOR_REQUIRED", "POST", "/v1/agents", **body)
    human.refused("OPERATOR_REQUIRED", "POST", "/v1/tokens", handle=name, idempotency_key=f"token {name}")


# -- grants and blocks ------------------------------------------------------------------------------------------------


def test_a_grant_is_given_by_its_owner_or_the_human(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    grant = {"scope": "CAN_READ_INBOX_OF", "grantee": alice.handle, "owner": bob.handle}
    alice.refused("ROLE_FORBIDDEN", "POST", "/v1/grants", **grant)
    first = bob.post("/v1/grants", **grant)
    assert operator(node).post("/v1/grants", **grant) == first  # twice is once
    assert alice.get("/v1/grants")["grants"] == bob.get("/v1/grants")["grants"] == [first]
    assert new_agent(node).get("/v1/grants")["grants"] == []
    alice.refused("ROLE_FORBIDDEN", "DELETE", "/v1/grants", **grant)
    bob.do("DELETE", "/v1/grants", **grant)
    bob.refused("GRANT_NOT_FOUND", "DELETE", "/v1/grants", **grant)
    bob.refused("AGENT_NOT_FOUND", "POST", "/v1/grants", **{**grant, "grantee": "@nobody-at-all"})
    bob.refused("NOT_OFFERED", "POST", "/v1/grants", **{**grant, "scope": "CAN_READ_MEMORIES_OF"})
    bob.refused("INVALID_ARGUMENT", "POST", "/v1/grants", **{**grant, "scope": "CAN_FLY"})


@pytest.mark.guarantee("G-BLOCK")
def test_a_block_wins_over_everything(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    lead = new_agent(node, "lead", "coordinator")
    role = bob.handle[1:]
    operator(node).do("PATCH", f"/v1/agents/{bob.handle}", roles=["participant", role])
    bob = new_token(node, bob.handle)
    pair = alice.send(bob)["thread_id"]
    asked = bob.send(alice, body="asked before")
    bob.post("/v1/grants", scope="CAN_REPLY_TO", grantee=alice.handle, owner=bob.handle)
    plan = alice.thread("plan", bob, lead)
    bob.ack(*[one["message_id"] for one in bob.mail()])
    bob.post("/v1/blocks", blocked=alice.handle)
    bob.post("/v1/blocks", blocked=lead.handle)
    alice.send_refused("BLOCKED", bob)
    alice.send_refused("BLOCKED", bob, lead)
    alice.send_refused("BLOCKED", bob, in_reply_to=asked["message_id"])
    alice.send_refused("BLOCKED", in_reply_to=asked["message_id"])
    alice.send_refused("BLOCKED", thread_id=pair)
    alice.send_refused("BLOCKED", bob, thread_id=plan)
    alice.send_refused("NO_RECIPIENTS", f"role:{role}")
    alice.refused("BLOCKED", "POST", "/v1/threads", title="x", members=[bob.handle])
    lead.send_refused("BLOCKED", bob)
    alice.send(thread_id=plan, body="for the others")
    alice.send("everyone", body="for everybody else")
    assert bob.unread() == []
    assert lead.unread()[0] == "for the others"
    bob.send(alice)  # a block works one way
    bob.do("DELETE", "/v1/blocks", blocked=alice.handle)
    alice.send(bob, body="at last")
    assert bob.unread() == ["at last"]


def test_blocks_are_their_owners_business(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    alice.refused("ROLE_FORBIDDEN", "POST", "/v1/blocks", blocked=HUMAN)
    alice.refused("AGENT_NOT_FOUND", "POST", "/v1/blocks", blocked="@nobody-at-all")
    block = alice.post("/v1/blocks", blocked=bob.handle)
    assert alice.post("/v1/blocks", blocked=bob.handle) == block
    assert alice.get("/v1/blocks")["blocks"] == [block]
    assert bob.get("/v1/blocks")["blocks"] == []  # who is blocked learns it when it matters
    bob.refused("ROLE_FORBIDDEN", "DELETE", "/v1/blocks", blocker=alice.handle, blocked=bob.handle)
    operator(node).do("DELETE", "/v1/blocks", blocker=alice.handle, blocked=bob.handle)
    alice.refused("BLOCK_NOT_FOUND", "DELETE", "/v1/blocks", blocked=bob.handle)


# -- workspaces -------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-WORKSPACE")
def test_another_workspace_sees_nothing(node: ServerProcess, alice: Actor, bob: Actor) -> None:
    name = new_name("w")[1:]
    there = operator(node, name)
    operator(node).post("/v1/workspaces", name=name)
    operator(node).refused("WORKSPACE_EXISTS", "POST", "/v1/workspaces", name=name)
    made = there.post("/v1/agents", handle=alice.handle)  # the same name, somebody else
    stranger = Actor(node, alice.handle, made["token"])
    assert stranger.get("/v1/whoami")["workspace"] == name
    posted = alice.send(bob, body=f"secret of {alice.handle}")
    jti = alice.get("/v1/tokens")["tokens"][0]["jti"]
    with Listener(there, after="0") as stream:
        operator(node).send(bob, body="not there")
        there.send(stranger, body="there")
        assert [one.body for one in stream.take_until("there") if one.body] == ["there"]
    for outsider in (stranger, there):
        outsider.refused("MESSAGE_NOT_FOUND", "GET", f"/v1/messages/{posted['message_id']}")
        outsider.refused("MESSAGE_NOT_FOUND", "POST", f"/v1/messages/{posted['message_id']}/retract")
        outsider.refused("THREAD_NOT_FOUND", "GET", f"/v1/threads/{posted['thread_id']}/messages")
        outsider.refused("THREAD_NOT_FOUND", "GET", f"/v1/threads/{posted['thread_id']}/summary")
        outsider.refused("THREAD_NOT_FOUND", "POST", f"/v1/threads/{posted['thread_id']}/ack", last_read_seq=0)
        outsider.send_refused("THREAD_NOT_FOUND", thread_id=posted["thread_id"])
        outsider.send_refused("RECIPIENT_UNKNOWN", bob)
        outsider.refused("TOKEN_NOT_FOUND", "DELETE", f"/v1/tokens/{jti}")
        assert outsider.get("/v1/search", q="secret")["messages"] == []
        assert posted["thread_id"] not in str(outsider.get("/v1/threads"))
        assert bob.handle not in str(outsider.get("/v1/agents"))
        assert posted["message_id"] not in str(outsider.get("/v1/log"))
    assert stranger.unread() == ["there"]
    assert alice.call("GET", "/v1/whoami").status == 200
    answer = alice.call("GET", "/v1/inbox", None, **{"Wakeline-Workspace": name})
    assert (answer.status, answer.code) == (403, "WORKSPACE_MISMATCH")
    operator(node, "nowhere-at-all").refused("WORKSPACE_NOT_FOUND", "GET", "/v1/inbox")
    names: list[Any] = [one["name"] for one in operator(node).get("/v1/workspaces")["workspaces"]]
    assert {"default", name} <= set(names)
    assert [one["name"] for one in stranger.get("/v1/workspaces")["workspaces"]] == [name]
