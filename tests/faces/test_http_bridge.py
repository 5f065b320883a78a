"""What the token of a bridge opens: its host's sessions, by the calls of bridges, and nothing else on any face."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.faces.http_calls import HUMAN, NOWHERE, Actor, error_of, new_agent, new_token, operator, path_of
from tests.faces.listener import Listener
from tests.faces.mcp_streams import get_stream, open_session
from wakeline.faces.http.operations import OPERATIONS
from wakeline.testing.server import ServerProcess

BRIDGES = [one for one in OPERATIONS if one.bridge]
OTHERS = [one for one in OPERATIONS if not one.bridge]


class Host:
    """A host with a bridge of its own, and a session of an agent there."""

    def __init__(self, node: ServerProcess, workspace: str | None = None) -> None:
        self.name = f"host-{uuid.uuid4().hex[:8]}"
        self.node = node
        human = operator(node, workspace)
        self.token = human.post("/v1/tokens", handle="@system", bridge=self.name)
        self.bridge = Actor(node, "@system", self.token["token"])
        self.bridge_id = uuid.uuid4().hex
        self.agent = new_agent(node, "worker", workspace=workspace)
        self.session_id = self.beat("idle")

    def beat(self, presence: str) -> str:
        said = {"harness": "reference", "transport": "seat", "native_id": self.name, "host": self.name}
        session_id: str = self.agent.post("/v1/sessions/heartbeat", **said, presence=presence)["session_id"]
        return session_id

    def attend(self, **said: Any) -> Any:
        return self.bridge.post("/v1/bridge/attend", bridge_id=self.bridge_id, version="1", **said)

    def claim(self) -> list[Any]:
        rings: list[Any] = self.bridge.post("/v1/bridge/claim", bridge_id=self.bridge_id)["rings"]
        return rings

    def mail(self, sender: Actor, **fields: Any) -> Any:
        """Post, and wait until the bridge's doorbell rang."""
        with Listener(self.bridge) as stream:
            posted = sender.send(self.agent, **fields)
            [rang] = stream.take(1)
            assert rang.kind == "delivery.planned"
        return posted


@pytest.fixture
def host(node: ServerProcess) -> Host:
    made = Host(node)
    made.attend(started=True)
    return made


@pytest.fixture(scope="module")
def ann(node: ServerProcess) -> Actor:
    return new_agent(node, "ann")


# -- scope ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G-BRIDGE-SCOPE")
@pytest.mark.parametrize("one", OTHERS, ids=lambda one: one.name)
def test_a_bridges_token_opens_no_other_operation(host: Host, one: Any) -> None:
    answer = host.bridge.call(one.method, path_of(one), {} if one.body is not None else None)
    assert (answer.status, answer.code) == (403, "BRIDGE_SCOPE")


@pytest.mark.guarantee("G-BRIDGE-SCOPE")
@pytest.mark.parametrize("path", ["/v1/wakes", "/mcp"])
def test_a_bridges_token_opens_no_other_face(host: Host, path: str) -> None:
    answer = host.bridge.call("GET" if path == "/v1/wakes" else "POST", path, None if path == "/v1/wakes" else {})
    assert (answer.status, answer.code) == (403, "BRIDGE_SCOPE")


@pytest.mark.guarantee("G-BRIDGE-SCOPE")
@pytest.mark.parametrize("who", ["agent", "human", "operator", "nobody"])
@pytest.mark.parametrize("one", BRIDGES, ids=lambda one: one.name)
def test_nobody_else_does_what_bridges_do(host: Host, ann: Actor, one: Any, who: str) -> None:
    caller = {
        "agent": ann,
        "human": new_token(host.node, HUMAN),
        "operator": operator(host.node),
        "nobody": Actor(host.node, "", "x.y.z"),
    }[who]
    body = {
        "attend_bridge": {"bridge_id": host.bridge_id, "version": "1"},
        "leave_bridge": {"bridge_id": host.bridge_id},
        "claim_rings": {"bridge_id": host.bridge_id},
        "settle_ring": {"bridge_id": host.bridge_id, "delivery_id": NOWHERE, "fence": 1, "result": "accepted"},
        "report_observations": {
            "bridge_id": host.bridge_id,
            "observations": [{"type": "gone", "session_id": host.session_id}],
        },
        "announce_turn": {"bridge_id": host.bridge_id, "session_id": host.session_id},
        "claim_activations": {"bridge_id": host.bridge_id},
        "start_activation": {"bridge_id": host.bridge_id, "activation_id": NOWHERE, "fence": 1, "pid": 7},
        "settle_activation": {"bridge_id": host.bridge_id, "activation_id": NOWHERE, "fence": 1, "end": "ended"},
    }.get(one.name)
    answer = caller.call(one.method, one.path, body)
    assert answer.code == ("TOKEN_INVALID" if who == "nobody" else "BRIDGE_REQUIRED")
    assert [row["session_id"] for row in host.bridge.get("/v1/bridge/sessions")["sessions"]] == [host.session_id]


@pytest.mark.guarantee("G-BRIDGE-SCOPE")
def test_a_bridge_has_no_part_in_another_host(node: ServerProcess, host: Host, ann: Actor) -> None:
    other = Host(node)
    other.attend(started=True)
    host.mail(ann)
    assert (other.claim(), len(other.bridge.get("/v1/bridge/sessions")["sessions"])) == ([], 1)
    [ring] = host.claim()
    settle = {"delivery_id": ring["delivery_id"], "fence": ring["fence"], "result": "accepted"}
    other.bridge.refused("DELIVERY_NOT_FOUND", "POST", "/v1/bridge/settle", bridge_id=other.bridge_id, **settle)
    seen = [
        {"type": "noticed", "session_id": host.session_id, "presence": "active"},
        {"type": "still", "session_id": host.session_id},
        {"type": "injected", "session_id": host.session_id, "marks": [ring["mark"]]},
        {"type": "gone", "session_id": host.session_id},
    ]
    said = {"bridge_id": other.bridge_id, "observations": seen}
    assert other.bridge.post("/v1/bridge/report", **said) == {"taken": 0}
    turn = {"bridge_id": other.bridge_id, "session_id": host.session_id}
    other.bridge.refused("SESSION_NOT_FOUND", "POST", "/v1/bridge/announce", **turn)
    [session] = host.bridge.get("/v1/bridge/sessions")["sessions"]
    assert (session["presence"], session["ended_at"]) == ("idle", None)


@pytest.mark.guarantee("G-BRIDGE-SCOPE")
def test_a_bridge_has_no_part_in_another_workspace(node: ServerProcess, host: Host, ann: Actor) -> None:
    name = f"w-{uuid.uuid4().hex[:8]}"
    operator(node).post("/v1/workspaces", name=name)
    stranger = Host(node, name)
    stranger.attend(started=True)
    host.mail(ann)
    assert stranger.claim() == []
    answer = host.bridge.call("GET", "/v1/bridge/sessions", **{"Wakeline-Workspace": name})
    assert answer.code in ("WORKSPACE_MISMATCH", "BRIDGE_SCOPE")


@pytest.mark.guarantee("G-BRIDGE-SCOPE")
def test_a_bridge_hears_of_its_own_host_only(node: ServerProcess, host: Host, ann: Actor) -> None:
    other, third = Host(node), Host(node)
    for one in (other, third):
        one.attend(started=True)
    with Listener(host.bridge) as mine:
        other.mail(ann)
        host.mail(ann, body="secret words")
        [heard] = mine.take(1)
    assert heard.data["data"]["session_id"] == host.session_id
    with Listener(ann) as theirs:
        third.mail(ann)
        ann.send(host.agent, body="the last word")
        assert {event.kind for event in theirs.take_until("the last word")} == {"message.posted"}


def test_a_bridges_token_can_be_revoked(host: Host) -> None:
    operator(host.node).call("DELETE", f"/v1/tokens/{host.token['jti']}")
    assert host.bridge.call("GET", "/v1/bridge/sessions").code == "TOKEN_REVOKED"


@pytest.mark.parametrize(
    "body",
    [
        {"handle": "@system"},
        {"handle": "@human", "bridge": "h"},
        {"handle": "@system", "bridge": "h", "role": "coordinator"},
        {"handle": "@system", "bridge": "h", "session_id": "s"},
    ],
)
def test_a_system_token_is_a_bridges_and_nothing_else(node: ServerProcess, body: dict[str, Any]) -> None:
    assert error_of(operator(node).call("POST", "/v1/tokens", body))["code"] == "ROLE_FORBIDDEN"


def test_only_a_human_makes_a_bridges_token(ann: Actor) -> None:
    ann.refused("ROLE_FORBIDDEN", "POST", "/v1/tokens", handle="@system", bridge="h")


# -- a ring -----------------------------------------------------------------------------------------------------------


def test_a_ring_goes_its_way(host: Host, ann: Actor) -> None:
    posted = host.mail(ann, subject='Say "hi"', body="the body itself")
    [ring] = host.claim()
    assert ring["session"]["session_id"] == host.session_id
    assert ring["mark"] == f"wl-{ring['event_id']}"
    for word in (ring["mark"], posted["message_id"], ann.handle, "\"Say 'hi'\"", "read_messages"):
        assert word in ring["text"]
    assert "the body itself" not in ring["text"] + ring["body"]
    said = {"delivery_id": ring["delivery_id"], "fence": ring["fence"], "result": "accepted", "detail": "queued"}
    settled = host.bridge.post("/v1/bridge/settle", bridge_id=host.bridge_id, **said)
    assert settled == {"delivery_id": ring["delivery_id"], "stale": False, "step": "triggered", "outcome": None}
    seen = [{"type": "injected", "session_id": host.session_id, "marks": [ring["mark"]], "turn_id": "t"}]
    assert host.bridge.post("/v1/bridge/report", bridge_id=host.bridge_id, observations=seen) == {"taken": 1}
    shown = host.agent.get(f"/v1/deliveries/{ring['delivery_id']}")
    assert (shown["step"], shown["outcome"]) == ("injected", "delivered")


def test_a_ring_is_hinted_at_on_the_agents_connections(host: Host, ann: Actor) -> None:
    with get_stream(host.agent, open_session(host.agent)) as stream:
        host.mail(ann)
        [ring] = host.claim()
        told = stream.next()["params"]["data"]
        assert (told["eventType"], told["eventId"]) == ("wake/sent_to_me", ring["event_id"])


def test_a_turn_is_told_what_waits_and_a_ring_of_ours_is_told_nothing(host: Host, ann: Actor) -> None:
    ann.send(host.agent, wake_policy="next_turn", subject="later")
    turn = {"bridge_id": host.bridge_id, "session_id": host.session_id, "turn_id": "t"}
    told = host.bridge.post("/v1/bridge/announce", **turn)
    while not told["marks"]:  # the matcher has not seen it yet; the mail itself is told of at once
        assert '"later"' in told["text"]
        told = host.bridge.post("/v1/bridge/announce", **turn)
    assert told["marks"][0] in told["text"]
    assert host.bridge.post("/v1/bridge/announce", **turn, shown=told["marks"]) == {"text": None, "marks": []}


def test_nothing_is_told_where_nothing_is_unread(host: Host) -> None:
    turn = {"bridge_id": host.bridge_id, "session_id": host.session_id}
    assert host.bridge.post("/v1/bridge/announce", **turn) == {"text": None, "marks": []}
