from __future__ import annotations

from typing import Any

import pytest

from tests.faces.http_calls import Actor, new_agent
from wakeline.testing.server import ServerProcess

VERDICTS = [
    {"level": "D4", "result": "pass", "latency_ms": 12.5},
    {"level": "D8", "result": "partial", "reason": "a crash was not tried", "evidence": {"stood": "burst"}},
]


def registered(agent: Actor, native_id: str, version: str = "1.0") -> dict[str, Any]:
    """A session of a harness that nobody knows, and how the server shows it."""
    said = {"harness": "brand-new", "harness_version": version, "transport": "seat", "native_id": native_id}
    made = agent.post("/v1/sessions/heartbeat", **said, wake_mode="socket", host="here", presence="idle")
    rows = agent.get("/v1/sessions")["sessions"]
    return next(row for row in rows if row["session_id"] == made["session_id"])


def record(server: ServerProcess, version: str = "1.0", **changes: Any) -> Any:
    said = {"harness": "brand-new", "transport": "seat", "version": version, "verdicts": VERDICTS, **changes}
    return server.call("POST", "/v1/proofs", said)


@pytest.mark.guarantee("G-PROVEN-ROUTES")
def test_a_proof_counts_for_sessions_that_run_and_for_those_that_come(node: ServerProcess) -> None:
    agent = new_agent(node, "prover")
    before = registered(agent, "first", "1.1")
    assert before["levels"] == {}
    assert record(node, "1.1").status == 200
    levels = {"D4": "pass", "D8": "partial"}
    assert agent.get("/v1/sessions")["sessions"][0]["levels"] == levels
    assert registered(agent, "second", "1.1")["levels"] == levels
    assert registered(agent, "third", "1.2")["levels"] == {}, "nobody has looked at that version"


@pytest.mark.guarantee("G-PROVEN-ROUTES")
def test_an_agent_whose_session_was_proven_is_woken_there(node: ServerProcess) -> None:
    agent = new_agent(node, "routed")
    registered(agent, "only", "2.0")
    [before] = agent.get("/v1/wake-subscriptions")["subscriptions"]
    record(node, "2.0")
    [after] = agent.get("/v1/wake-subscriptions")["subscriptions"]
    assert (before["harness_target"], after["harness_target"]) == ("none", "bridge-daemon")


@pytest.mark.guarantee("G-PROVEN-ROUTES")
def test_a_session_that_praises_itself_is_not_woken(node: ServerProcess) -> None:
    agent = new_agent(node, "praiser")
    said = {"harness": "hostile", "native_id": "n", "host": "here", "levels": {"D4": "pass", "D8": "fail"}}
    made = agent.post("/v1/sessions/heartbeat", **said, wake_mode="socket", presence="idle")
    for more in ({"levels": {"D4": "pass"}}, {"transport": "seat", "harness_version": "5.0"}):
        agent.post("/v1/sessions/heartbeat", session_id=made["session_id"], **more)
        [shown] = agent.get("/v1/sessions")["sessions"]
        assert "D4" not in shown["levels"]
        [route] = agent.get("/v1/wake-subscriptions")["subscriptions"]
        assert route["harness_target"] == "none"


@pytest.mark.guarantee("G-PROVEN-ROUTES")
def test_a_session_may_say_that_it_cannot_what_was_proven(node: ServerProcess) -> None:
    agent = new_agent(node, "modest")
    made = registered(agent, "modest", "6.0")
    agent.post("/v1/sessions/heartbeat", session_id=made["session_id"], levels={"D4": "fail"})
    record(node, "6.0")
    [shown] = agent.get("/v1/sessions")["sessions"]
    assert shown["levels"] == {"D4": "fail", "D8": "partial"}
    [route] = agent.get("/v1/wake-subscriptions")["subscriptions"]
    assert route["harness_target"] == "none"
    agent.post("/v1/sessions/heartbeat", session_id=made["session_id"], levels={})
    [shown] = agent.get("/v1/sessions")["sessions"]
    assert shown["levels"]["D4"] == "pass"


def test_the_newest_finding_replaces_the_one_before(node: ServerProcess) -> None:
    agent = new_agent(node, "reprover")
    record(node, "3.0")
    worse = [{"level": "D4", "result": "fail", "reason": "it slept on"}]
    record(node, "3.0", verdicts=worse)
    proofs = agent.get("/v1/proofs")["proofs"]
    [mine] = [one for one in proofs if (one["harness"], one["version"]) == ("brand-new", "3.0")]
    assert (mine["levels"], mine["shipped"]) == ({"D4": "fail"}, False)
    assert mine["verdicts"][0]["reason"] == "it slept on"
    assert registered(agent, "late", "3.0")["levels"] == {"D4": "fail"}


def test_what_our_own_tests_have_proven_is_listed_too(node: ServerProcess) -> None:
    shipped = [one for one in new_agent(node, "reader").get("/v1/proofs")["proofs"] if one["shipped"]]
    assert {"claude-code", "codex", "opencode", "pi"} <= {one["harness"] for one in shipped}


@pytest.mark.guarantee("G-PROVEN-ROUTES")
def test_only_a_human_says_what_was_proven(node: ServerProcess) -> None:
    agent = new_agent(node, "boaster")
    said = {"harness": "brand-new", "transport": "seat", "version": "4.0", "verdicts": VERDICTS}
    refused = node.call("POST", "/v1/proofs", said, token=agent.token)
    assert (refused.status, refused.code) == (403, "ROLE_FORBIDDEN")
