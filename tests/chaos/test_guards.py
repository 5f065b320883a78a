"""What guards count is on disk with the message that they count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.chaos.hardship import eventually
from tests.databases import fresh_postgres
from tests.faces.http_calls import new_agent, operator
from wakeline.testing.server import ServerProcess

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgres"])
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that the test kills and starts again."""
    with ExitStack() as stack:
        url = stack.enter_context(fresh_postgres()) if request.param == "postgres" else ""
        yield stack.enter_context(ServerProcess(tmp_path / "data", database=url, sweep_seconds=0.1))


def revive(server: ServerProcess) -> None:
    server.kill()
    server.start()


@pytest.mark.guarantee("G-GUARD")
def test_kill_9_right_after_the_answer_keeps_the_counters_and_the_chain(mortal: ServerProcess) -> None:
    alice, bob, carol = (new_agent(mortal, name) for name in ("alice", "bob", "carol"))
    sent = alice.send(bob, body="thanks")
    bob.ack(sent["message_id"])
    revive(mortal)
    onward = bob.send(carol, body="thanks")
    assert bob.message(onward["message_id"])["chain"]["hops"] == [alice.handle, bob.handle]
    alice.send(bob, body="Thanks")
    revive(mortal)
    assert bob.send(alice, body="thanks")["guard"]["code"] == "LOOP_REPEATS"


@pytest.mark.guarantee("G-GUARD")
def test_kill_9_right_after_a_guard_fired_leaves_a_blocked_thread_and_one_incident(mortal: ServerProcess) -> None:
    alice, bob = new_agent(mortal, "alice"), new_agent(mortal, "bob")
    fired = [alice.send(bob, body="ok", idempotency_key=str(n)) for n in range(3)][-1]
    revive(mortal)
    human = operator(mortal)
    assert human.get(f"/v1/threads/{fired['thread_id']}")["status"] == "blocked"
    assert [one["thread_id"] for one in human.mail()] == [fired["guard"]["incident_thread_id"]]
    assert alice.send(bob, body="ok", idempotency_key="2") == fired
    alice.send(bob, body="ok")
    assert len(human.mail()) == 1


@pytest.mark.guarantee("G-ANSWER-BY")
def test_a_deadline_that_passes_while_the_server_is_dead_is_told_once(mortal: ServerProcess) -> None:
    alice, bob = new_agent(mortal, "alice"), new_agent(mortal, "bob")
    asked = alice.send(bob, body="How far are you?", answer_by=(datetime.now(UTC) + timedelta(seconds=2)).isoformat())
    mortal.kill()
    mortal.start()
    human = operator(mortal)
    [told] = eventually(human.mail, "the human is told")
    assert told["metadata"]["message_id"] == asked["message_id"]
    revive(mortal)
    bob.send(in_reply_to=asked["message_id"], body="sorry, done")
    assert [one["message_id"] for one in human.mail()] == [told["message_id"]]
