from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.activation.ward import Ward, eventually, is_there, ward_in

INHERITED = {"CLAUDECODE": "1", "CLAUDE_CODE_MESSAGING_SOCKET": "/x", "WAKELINE_SECRET": "x", "MY_OWN": "kept"}


@pytest.fixture
def ward(tmp_path: Path) -> Iterator[Ward]:
    with ward_in(tmp_path) as made:
        yield made


@pytest.mark.guarantee("G-ACTIVATION-AUTHORITY")
def test_nothing_is_started_that_no_human_has_allowed(ward: Ward) -> None:
    ward.fall_silent()
    ward.send()
    assert ward.wait_reason("not_allowed")["stopped"] is False
    [tried] = ward.attempts()
    assert (tried["way"], tried["result"]) == ("trigger", "failed")
    assert ward.ledger == []


@pytest.mark.guarantee("G-ACTIVATION")
def test_a_dormant_agent_is_resumed_reads_its_mail_and_is_left_alone(tmp_path: Path) -> None:
    with ward_in(tmp_path, environ=INHERITED) as ward:
        session_id = ward.fall_silent(cwd=str(tmp_path))
        ward.allow("resume")
        ward.send(subject="Soup")
        row = ward.wait_result("fallback_resumed")
        assert (row["way"], row["session_id"], row["exit_status"], row["reason"]) == ("resume", session_id, 0, None)
        assert "read 1" in row["output"]
        assert ward.bob.unread() == []
        [started] = map(json.loads, ward.ledger)
        assert started["session"] == "native-1"
        assert started["cwd"] == str(tmp_path)
        assert "1 unread message" in started["prompt"]
        assert "The soup is ready." not in started["prompt"]
        assert started["environ"]["MY_OWN"] == "kept"
        assert not {*INHERITED} - {"MY_OWN"} & {*started["environ"]}
        assert not [name for name in started["environ"] if name.startswith("WAKELINE_")]
        assert ward.bob.get("/v1/deliveries")["deliveries"] == []
        kinds = [event["kind"] for event in ward.human.get("/v1/log", limit=500)["events"]]
        assert kinds.count("activation.settled") == len(ward.attempts())


def test_a_new_session_hears_of_its_thread(ward: Ward) -> None:
    ward.fall_silent(resumable=False)
    ward.allow("spawn")
    ward.send("Shall we eat?")
    row = ward.wait_result("fallback_spawned")
    assert row["session_id"] is None
    [started] = map(json.loads, ward.ledger)
    assert "This is a new session" in started["prompt"]
    assert "Open questions: 1" in started["prompt"]
    assert "Shall we eat?" not in started["prompt"]


@pytest.mark.guarantee("G-ACTIVATION-LIMITS")
@pytest.mark.parametrize("mode", ["crash", "ignore"])
def test_processes_that_bring_nothing_end_in_an_incident(ward: Ward, mode: str) -> None:
    ward.fall_silent()
    ward.allow("resume", mode)
    ward.send()
    stopped = ward.wait_reason("crash_loop")
    assert (stopped["failures"], stopped["stopped"]) == (3, True)
    assert len(ward.ledger) == 3
    rows = ward.attempts("resume")
    assert {row["reason"] for row in rows} == {"exit_status" if mode == "crash" else "mail_unread"}
    [incident] = [one for one in ward.human.mail() if one["metadata"].get("event") == "activation_stopped"]
    assert ward.bob.handle in incident["body"]
    if mode == "crash":
        shown = ward.human.get(f"/v1/activations/{rows[-1]['activation_id']}")
        assert "the last words" in shown["output"]
    ward.allow("resume", "read")
    ward.wait_result("fallback_resumed")


@pytest.mark.guarantee("G-ACTIVATION-OWNED")
@pytest.mark.parametrize("mode", ["linger", "detach"], ids=["in its group", "in a session of its own"])
def test_a_human_ends_what_runs_with_all_that_it_started(ward: Ward, mode: str) -> None:
    ward.fall_silent()
    ward.allow("resume", mode)
    ward.send()
    running = ward.wait_state("running")
    [child] = eventually(ward.children, ward.listed)
    program = json.loads(ward.ledger[0])["pid"]
    ward.human.post(f"/v1/activations/{running['activation_id']}/stop")
    row = ward.wait_state("ended")
    assert (row["result"], row["reason"], row["stop_asked_by"]) == ("failed", "stopped", ward.human.handle)
    eventually(lambda: not is_there(child) and not is_there(program), lambda: "the group outlived its end")
    assert ward.wait_reason("stopped")["stopped"] is True
    assert len(ward.ledger) == 1


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
@pytest.mark.parametrize("gently", [True, False], ids=["stopped", "killed"])
def test_a_server_that_comes_back_adopts_what_it_started(ward: Ward, gently: bool) -> None:  # noqa: FBT001 - a case
    ward.fall_silent()
    ward.allow("resume", "linger")
    ward.send()
    running = ward.wait_state("running")
    if gently:
        ward.server.stop()
    else:
        ward.server.kill()
    ward.server.start()
    (ward.folder / "go").touch()
    row = ward.wait_result("fallback_resumed")
    assert row["activation_id"] == running["activation_id"]
    assert len(ward.ledger) == 1
    assert not (ward.folder / "data" / "activations" / row["activation_id"]).exists()


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
def test_what_loses_its_keeper_is_ended_before_anything_else_is_started(ward: Ward) -> None:
    ward.fall_silent()
    ward.allow("resume", "linger")
    ward.send()
    running = ward.wait_state("running")
    eventually(ward.children, ward.listed)
    first = [json.loads(ward.ledger[0])["pid"], *ward.children()]
    os.kill(running["pid"], signal.SIGKILL)
    eventually(lambda: len(ward.ledger) > 1, lambda: (ward.listed(), ward.server.output))
    assert not any(map(is_there, first))
    assert ward.attempts("resume")[0]["reason"] == "keeper_lost"
    (ward.folder / "go").touch()
    ward.wait_result("fallback_resumed")


def test_a_session_whose_process_lives_is_not_resumed(ward: Ward) -> None:
    ward.fall_silent(pid=os.getpid())
    ward.allow("resume")
    ward.send()
    row = ward.wait_result("already_active")
    assert row["reason"] == "process_alive"
    assert ward.ledger == []


def test_a_time_limit_ends_what_does_not(tmp_path: Path) -> None:
    with ward_in(tmp_path, activation_seconds=1) as ward:
        ward.fall_silent()
        ward.allow("resume", "linger")
        ward.send()
        row = eventually(lambda: next((one for one in ward.attempts("resume") if one["result"]), None), ward.listed)
        assert (row["result"], row["reason"]) == ("failed", "time_limit")
