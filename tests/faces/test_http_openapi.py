from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import schemathesis

from tests.faces.http_calls import HUMAN, Actor, new_agent, new_token, operator, raw
from wakeline.errors import CATALOGUE
from wakeline.faces.http.operations import OPERATIONS
from wakeline.testing.server import ServerProcess

ROOT = Path(__file__).parents[2]
STREAM = "/v1/events"
WAITS = ("/v1/inbox/wait", "/v1/wakes")  # these would wait, for nobody, as long as they are asked to
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that minds no amount of calls."""
    data = tmp_path_factory.mktemp("patient") / "data"
    with ServerProcess(data, rate_per_second=1_000_000, rate_burst=1_000_000) as process:
        yield process


@pytest.fixture(scope="module")
def document(patient: ServerProcess) -> dict[str, Any]:
    status, headers, body = raw(patient, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (status, headers["content-type"]) == (200, "application/json")
    found: dict[str, Any] = json.loads(body)
    return found


def test_the_document_is_valid_openapi(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    schemathesis.openapi.from_dict(document).validate()


def test_the_document_holds_every_door_and_no_other(document: dict[str, Any]) -> None:
    told = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    served = {(one.method, one.path) for one in OPERATIONS}
    assert told - served == {
        ("GET", path) for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/events", "/v1/wakes")
    }
    assert served <= told
    names = [method["operationId"] for item in document["paths"].values() for method in item.values()]
    assert len(names) == len(set(names))


def test_only_the_open_doors_say_that_they_are_open(document: dict[str, Any]) -> None:
    assert document["security"] == [{"bearer": []}]
    opened = {path for path, item in document["paths"].items() for one in item.values() if "security" in one}
    assert opened == {"/healthz", "/readyz", "/metrics", "/openapi.json"}


def test_every_code_is_named(document: dict[str, Any]) -> None:
    told = document["components"]["responses"]["Error"]["description"]
    assert all(code in told for code in CATALOGUE)


def test_patterns_can_be_read_by_everybody(document: dict[str, Any]) -> None:
    assert "(?" not in str(document)


# -- what the document says of requests is what the server does -------------------------------------------------------

ADDRESSED = {"body": "x", "to": ["@nobody"]}


@pytest.mark.parametrize(
    ("name", "path", "body", "valid"),
    [
        ("PostMessage", "/v1/messages", {"body": "x"}, False),
        ("PostMessage", "/v1/messages", {"body": "x", "in_reply_to": None}, False),
        ("PostMessage", "/v1/messages", {"body": "x", "in_reply_to": "0" * 26}, True),
        ("PostMessage", "/v1/messages", {"to": ["@nobody"]}, False),
        ("PostMessage", "/v1/messages", ADDRESSED, True),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "to": "everyone"}, True),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "to": ["role:nobody"]}, True),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "to": ["everyone", "@a"]}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "to": ["role:a", "role:b"]}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "to": []}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "to": ["@a\n"]}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "to": "nobody"}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "body": "a\0b"}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "subject": "a\0b"}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "tags": ["a\0b"]}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "metadata": {"a": [{"b": "\0"}]}}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "metadata": {"\0": 1}}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "metadata": {"a": [1, None, {"b": [1.5, True]}]}}, True),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "metadata": []}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "expires_at": "2026-01-31T12:00:00"}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "expires_at": "2026-01-31T12:00:00+01:00"}, True),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "schema_version": 2}, False),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "schema_version": 1.0}, True),
        ("PostMessage", "/v1/messages", {**ADDRESSED, "surprise": 1}, False),
        ("CreateThread", "/v1/threads", {"title": "x", "type": "workflow"}, False),
        ("CreateThread", "/v1/threads", {"title": "x", "type": "workflow", "coordinator": None}, False),
        ("CreateThread", "/v1/threads", {"title": "x", "type": "workflow", "coordinator": "@nobody"}, True),
        ("CreateThread", "/v1/threads", {"title": "x", "type": "incident"}, True),
        ("CreateThread", "/v1/threads", {"title": ""}, False),
        ("ChangeStatus", "/v1/threads/{0}/status", {"status": "blocked", "escalation_owner": "@nobody"}, True),
        ("ChangeStatus", "/v1/threads/{0}/status", {"status": "active", "escalation_owner": "@nobody"}, False),
        ("ChangeStatus", "/v1/threads/{0}/status", {"status": "active", "escalation_owner": None}, True),
        ("AckThread", "/v1/threads/{0}/ack", {"last_read_seq": 1.0}, True),
        ("AckThread", "/v1/threads/{0}/ack", {"last_read_seq": 1.5}, False),
        ("AckThread", "/v1/threads/{0}/ack", {"last_read_seq": 1e300}, False),
        ("AckThread", "/v1/threads/{0}/ack", {"last_read_seq": "1"}, False),
        ("SubscribeWake", "/v1/wake-subscriptions", {"trigger": "SENT_TO_ME"}, True),
        ("SubscribeWake", "/v1/wake-subscriptions", {"trigger": "SENT_TO_ME", "harness_target": "a2a-webhook"}, False),
        (
            "SubscribeWake",
            "/v1/wake-subscriptions",
            {"trigger": "SENT_TO_ME", "harness_target_metadata": {"coalesce_window": 5.0}},
            True,
        ),
        (
            "SubscribeWake",
            "/v1/wake-subscriptions",
            {"trigger": "SENT_TO_ME", "harness_target_metadata": {"coalesce_window": 5.5}},
            False,
        ),
        (
            "SubscribeWake",
            "/v1/wake-subscriptions",
            {"trigger": "SENT_TO_ME", "harness_target_metadata": {"coalesce_window": None}},
            True,
        ),
        (
            "SubscribeWake",
            "/v1/wake-subscriptions",
            {"trigger": "SENT_TO_ME", "harness_target_metadata": {"signing_key": "x"}},
            False,
        ),
        (
            "SubscribeWake",
            "/v1/wake-subscriptions",
            {"trigger": "SENT_TO_ME", "filters": {"tagged_concepts": ["a\0b"]}},
            False,
        ),
        ("ManageWake", "/v1/manage-wake-subscription", {"action": "list"}, True),
        ("ManageWake", "/v1/manage-wake-subscription", {"action": "subscribe"}, False),
        ("ManageWake", "/v1/manage-wake-subscription", {"action": "subscribe", "trigger": "HEARTBEAT_PULSE"}, True),
        ("ManageWake", "/v1/manage-wake-subscription", {"action": "unsubscribe"}, False),
        ("ManageWake", "/v1/manage-wake-subscription", {"action": "resume", "subscriptionId": "0" * 26}, True),
        ("ManageWake", "/v1/manage-wake-subscription", {"action": "resync", "subscriptionId": "0" * 26}, False),
        ("Prune", "/v1/prune", {}, True),
        ("HeartbeatSession", "/v1/sessions/heartbeat", {"harness": "pi"}, True),
        ("HeartbeatSession", "/v1/sessions/heartbeat", {"presence": "idle"}, False),
        ("HeartbeatSession", "/v1/sessions/heartbeat", {"harness": "pi", "levels": {"D9": "pass"}}, False),
    ],
)
def test_the_document_and_the_server_agree_on_what_is_a_request(
    patient: ServerProcess, document: dict[str, Any], name: str, path: str, body: dict[str, Any], *, valid: bool
) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    assert jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(body) == valid
    human = operator(patient)
    answer = human.call("POST", path.replace("{0}", human.thread()), body)
    assert (answer.status != 400) == valid, answer.body


# -- Schemathesis -----------------------------------------------------------------------------------------------------


def settle(server: ServerProcess) -> Actor:
    """A world with something in it: mail, threads, grants and a dead letter."""
    alice, bob = new_agent(server, "alice"), new_agent(server, "bob")
    for n in range(3):
        alice.send(bob, body=f"hello {n}")
    bob.send(alice, tags=["todo"], metadata={"a": [1]})
    alice.thread("plan", bob)
    alice.send_refused("RECIPIENT_UNKNOWN", "@nobody-at-all")
    bob.post("/v1/grants", scope="CAN_REPLY_TO", grantee=alice.handle, owner=bob.handle)
    return alice


def explore(caller: Actor, *options: str) -> None:
    server = caller.server
    done = subprocess.run(
        [
            SCHEMATHESIS, "--config-file", ROOT / "schemathesis.toml", "run", f"{server.url}/openapi.json", *options,
            "--header", f"Authorization: Bearer {caller.token}", "--seed", "1", "--no-color",
        ],
        check=False,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.faces.schemathesis_hooks"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert "Traceback" not in server.output
    assert operator(server).get("/v1/status")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("who", ["human", "agent"])
def test_schemathesis_finds_nothing(patient: ServerProcess, who: str) -> None:
    agent = settle(patient)
    caller = new_token(patient, HUMAN) if who == "human" else agent
    explore(
        caller,
        "--exclude-path",
        STREAM,
        *(word for path in WAITS for word in ("--exclude-path", path)),
        "--max-examples",
        "15",
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_schemathesis_finds_nothing_in_the_stream(patient: ServerProcess) -> None:
    """Apart from the rest, because a stream that was opened ends by the caller's patience."""
    explore(new_agent(patient), "--include-path", STREAM, "--phases", "examples,coverage", "--request-timeout", "0.5")
