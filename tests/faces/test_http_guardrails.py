from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.http_calls import Actor, error_of, new_agent, operator
from wakeline.testing.server import ServerProcess


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with every guardrail drawn tight."""
    with ServerProcess(
        tmp_path_factory.mktemp("strict") / "data",
        direct_messages="granted",
        rate_per_second=2,
        rate_burst=5,
        body_limit=1000,
        subject_limit=10,
        restricted_tags="deploy,urgent",
        dead_letters_per_sender=3,
        dead_letter_bytes=500,
        direct_wake_policy="silent",
        broadcast_wake_policy="immediate",
    ) as process:
        yield process


@pytest.fixture
def alice(strict: ServerProcess) -> Actor:
    return new_agent(strict, "alice")


@pytest.fixture
def bob(strict: ServerProcess) -> Actor:
    return new_agent(strict, "bob")


def test_nobody_is_written_to_first_without_a_grant(strict: ServerProcess, alice: Actor, bob: Actor) -> None:
    error = alice.send_refused("GRANT_MISSING", bob)
    assert error["details"]["rule"] == "CAN_REPLY_TO"
    assert "wakeline grant add CAN_REPLY_TO" in error["hint"]
    bob.post("/v1/grants", scope="CAN_REPLY_TO", grantee=alice.handle, owner=bob.handle)
    asked = alice.send(bob, body="may I?")
    bob.send_refused("GRANT_MISSING", alice)  # it works one way
    bob.send(alice, in_reply_to=asked["message_id"], body="an answer needs no grant")
    bob.send(in_reply_to=asked["message_id"], body="nor does this one")
    bob.do("DELETE", "/v1/grants", scope="CAN_REPLY_TO", grantee=alice.handle, owner=bob.handle)
    alice.send_refused("GRANT_MISSING", bob)
    operator(strict).send(bob, body="the human needs none")
    new_agent(strict, "lead", "coordinator").send(bob, body="nor does a coordinator")
    assert bob.unread() == ["may I?", "the human needs none", "nor does a coordinator"]


def test_a_thread_is_no_way_around_a_grant(strict: ServerProcess, alice: Actor, bob: Actor) -> None:
    alice.refused("GRANT_MISSING", "POST", "/v1/threads", title="x", members=[bob.handle])
    own = alice.thread("x")
    alice.refused("GRANT_MISSING", "POST", f"/v1/threads/{own}/members", members=[bob.handle])
    alice.refused("GRANT_MISSING", "POST", f"/v1/threads/{own}/status", status="blocked", escalation_owner=bob.handle)
    bob.post("/v1/grants", scope="CAN_REPLY_TO", grantee=alice.handle, owner=bob.handle)
    alice.post(f"/v1/threads/{own}/members", members=[bob.handle])
    alice.send(thread_id=own, body="together")
    assert bob.unread()[-1] == "together"


def test_who_is_too_fast_waits_as_long_as_told(strict: ServerProcess, alice: Actor, bob: Actor) -> None:
    for _ in range(5):
        alice.send("@me")
    answer = alice.call("POST", "/v1/messages", {"to": ["@me"], "body": "one too many"})
    assert answer.status == 429
    error = error_of(answer, "RATE_LIMITED")
    wait = error["details"]["retry_after_seconds"]
    assert 0 < wait <= 0.5
    assert answer.headers["retry-after"] == "1"
    bob.send("@me")  # everybody has their own
    time.sleep(wait + 0.01)
    alice.send("@me")
    [row] = [one for one in operator(strict).get("/v1/refusals")["refusals"] if one["handle"] == alice.handle]
    assert (row["rule"], row["count"]) == ("rate_per_second", 1)


def test_a_repeated_key_costs_nothing(alice: Actor) -> None:
    for _ in range(12):
        alice.send("@me", idempotency_key="k")


@pytest.mark.guarantee("G-RATE")
def test_the_rate_is_remembered_across_a_restart(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", rate_per_second=1, rate_burst=60) as server:
        agent = new_agent(server)
        for _ in range(60):
            agent.send("@me")
        server.kill()
        server.start()
        codes = [agent.call("POST", "/v1/messages", {"to": ["@me"], "body": "x"}).code for _ in range(59)]
    assert codes[-1] == "RATE_LIMITED"


def test_what_is_too_large_is_counted(strict: ServerProcess, alice: Actor) -> None:
    for _ in range(2):
        alice.send_refused("BODY_TOO_LARGE", "@me", body="x" * 1001)
    alice.send_refused("BODY_TOO_LARGE", "@me", metadata={"a": "x" * 1001})
    alice.send_refused("SUBJECT_TOO_LONG", "@me", subject="x" * 11)
    counted: Counter[str] = Counter()  # a new minute is a new row
    for row in operator(strict).get("/v1/refusals")["refusals"]:
        if row["handle"] == alice.handle:
            counted[row["rule"]] += row["count"]
    assert counted == {"body_limit": 3, "subject_limit": 1}


def test_limits_are_settings(alice: Actor) -> None:
    alice.send_refused("BODY_TOO_LARGE", "@me", body="x" * 1001)
    alice.send_refused("SUBJECT_TOO_LONG", "@me", subject="x" * 11)
    alice.send_refused("RESTRICTED_TAG", "@me", tags=["deploy"])
    alice.send("@me", tags=["override"])


def test_wake_policies_are_settings(strict: ServerProcess, alice: Actor) -> None:
    reviewer = new_agent(strict, "reviewer", alice.handle[1:])
    alice.send("@me")
    alice.send(f"role:{alice.handle[1:]}")
    assert alice.mail()[0]["wake_policy"] == "silent"
    assert reviewer.mail()[0]["wake_policy"] == "immediate"


def test_dead_letters_are_few_and_small(strict: ServerProcess, alice: Actor) -> None:
    for n in range(4):
        alice.send_refused("RECIPIENT_UNKNOWN", "@nobody-at-all", body=str(n))
    kept = operator(strict).get("/v1/dead-letters", sender=alice.handle)["dead_letters"]
    assert ['"body":"3"' in one["payload"] for one in kept] == [True, False, False]
    error = alice.send_refused("RECIPIENT_UNKNOWN", "@nobody-at-all", body="x" * 600)
    assert "dead_letter_id" not in error["details"]
    assert len(operator(strict).get("/v1/dead-letters", sender=alice.handle)["dead_letters"]) == 3


def test_what_cannot_be_delivered_counts_as_sent(alice: Actor) -> None:
    codes = [alice.call("POST", "/v1/messages", {"to": ["@nobody-at-all"], "body": "x"}).code for _ in range(8)]
    assert codes[0] == "RECIPIENT_UNKNOWN"
    assert codes[-1] == "RATE_LIMITED"
