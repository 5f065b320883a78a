from __future__ import annotations

from tests.faces.http_calls import NOWHERE, new_agent, operator
from wakeline.testing.server import ServerProcess

NOTHING = {"allow": "none", "max_per_hour": 0, "concurrency": 0, "command": None, "changed_by": None}


def test_a_human_says_what_may_be_started_and_the_agent_may_know(node: ServerProcess) -> None:
    bob, human = new_agent(node, "bob"), operator(node)
    path = f"/v1/agents/{bob.handle}/activation"
    assert NOTHING.items() <= bob.get(path).items()
    said = {"allow": "spawn", "max_per_hour": 2, "command": ["agent", "{prompt}"], "harness": "codex", "cwd": "/w"}
    assert said.items() <= human.do("PUT", path, **said).items()
    assert bob.get(path) == human.get(path)
    assert bob.get(path)["changed_by"] == human.handle
    assert human.do("PUT", path, allow="none")["command"] is None
    rows = human.get("/v1/log", limit=500)["events"]
    [first, second] = [row for row in rows if row["kind"] == "activation.allowed" and row["subject"] == bob.handle]
    assert (first["actor"], first["data"]["allow"], second["data"]["allow"]) == (human.handle, "spawn", "none")


def test_nobody_else_decides_or_looks(node: ServerProcess) -> None:
    bob, eve, human = new_agent(node, "bob"), new_agent(node, "eve"), operator(node)
    path = f"/v1/agents/{bob.handle}/activation"
    for agent in (bob, eve):
        agent.refused("ROLE_FORBIDDEN", "PUT", path, allow="spawn")
    eve.refused("ROLE_FORBIDDEN", "GET", path)
    eve.refused("ROLE_FORBIDDEN", "GET", f"/v1/activations?handle={bob.handle}")
    assert eve.get("/v1/activations") == {"activations": [], "dormant": [], "has_more": False, "next": None}
    for method, where in (("GET", ""), ("POST", "/stop")):
        human.refused("ACTIVATION_NOT_FOUND", method, f"/v1/activations/{NOWHERE}{where}")
    bob.refused("ROLE_FORBIDDEN", "POST", f"/v1/activations/{NOWHERE}/stop")


def test_what_may_not_be_allowed_is_refused_with_a_code_of_its_own(node: ServerProcess) -> None:
    bob, human = new_agent(node, "bob"), operator(node)
    path = f"/v1/agents/{bob.handle}/activation"
    human.refused("ACTIVATION_LIMIT", "PUT", path, allow="resume", max_per_hour=500)
    human.refused("PERMISSION_BYPASS_REFUSED", "PUT", path, allow="resume", command=["codex", "--yolo"])
    human.refused("INVALID_ARGUMENT", "PUT", path, allow="anything")
    human.refused("AGENT_NOT_FOUND", "PUT", "/v1/agents/@nobody-at-all/activation", allow="resume")
    human.refused("AGENT_NOT_FOUND", "PUT", f"/v1/agents/{human.handle}/activation", allow="resume")
    assert bob.get(path)["allow"] == "none"
