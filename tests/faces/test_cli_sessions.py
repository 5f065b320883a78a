from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faces.command_line import Shell
from tests.faces.test_cli_start import HEAVY, modules_of
from wakeline.runtime.processes import BRIDGED, host_name
from wakeline.testing.server import ServerProcess

PROVEN = ("--transport", "app-server", "--harness-version", "0.166.0")


@pytest.fixture
def human(server: ServerProcess) -> Shell:
    return Shell(server.environ)


def test_a_session_s_life(human: Shell) -> None:
    bob, as_bob = human.new_agent()
    told = as_bob.json(
        "session", "heartbeat", "--harness", "claude-code", "--native-id", "n", "--pid", str(os.getpid()), "--level",
        "D4=fail", "--level", "D7=unknown", "--resumable", "--presence", "active", "--branch", "main",
    )  # fmt: skip
    assert (told["presence"], told["unread"], told["doorbell"]) == ("active", 0, None)
    name = told["session_id"]
    [shown] = as_bob.json("session", "list")["sessions"]
    assert (shown["host"], shown["cwd"]) == (host_name(), str(Path.cwd()))
    assert (shown["liveness"], shown["levels"]) == ("live", {"D4": "fail", "D7": "unknown"})
    beat = as_bob.json("session", "heartbeat", "--session", name, "--presence", "idle", "--context-tokens", "5")
    assert (beat["session_id"], beat["presence"]) == (name, "idle")
    [kept] = as_bob.json("session", "list", bob)["sessions"]
    assert (kept["cwd"], kept["pid"], kept["context_tokens"]) == (shown["cwd"], shown["pid"], 5)
    listed = as_bob.run("session", "list").out
    assert name in listed
    assert "idle" in listed
    assert as_bob.run("session", "end", name).out == f"session {name} of {bob} has ended\n"
    assert as_bob.run("session", "list").out == "no sessions\n"
    assert as_bob.run("session", "list", "--ended", "-o", "jsonl").lines()[0]["ended_at"] is not None


def test_a_session_is_on_this_machine_as_its_bridge_calls_it(human: Shell, server: ServerProcess) -> None:
    _, as_bob = human.new_agent()
    (server.data / BRIDGED).write_text("nickname\n")
    beat = ("session", "heartbeat", "--harness", "pi", "--pid", str(os.getpid()))
    as_bob.json(*beat, "--native-id", "by default")
    as_bob.json(*beat, "--native-id", "by name", "--host", host_name())
    shown = {one["native_id"]: one for one in as_bob.json("session", "list")["sessions"]}
    assert shown["by default"]["host"] == "nickname"
    assert (shown["by name"]["host"], shown["by name"]["liveness"]) == (host_name(), "live")
    assert shown["by default"]["pid_started_at"] == shown["by name"]["pid_started_at"] is not None


def test_a_heartbeat_prints_the_doorbell_alone(human: Shell) -> None:
    bob, as_bob = human.new_agent()
    beat = ("session", "heartbeat", "--harness", "pi", "--presence", "active")
    quiet = as_bob.run(*beat)
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    human.json("send", bob, "--subject", "Lunch\x1b[2J?", "the body")
    rung = as_bob.run(*beat).out
    assert rung.startswith("Wakeline: you have 1 unread message from @human.")
    assert '"Lunch (2J?"' in rung
    assert "the body" not in rung
    assert rung.count("\n") == 1


def test_peers_are_shown(human: Shell) -> None:
    bob, as_bob = human.new_agent()
    carol, _ = human.new_agent()
    as_bob.json("session", "heartbeat", "--harness", "codex", "--presence", "idle", *PROVEN)
    human.json("send", bob, "hello")
    rows = {line.split()[0]: line.split() for line in human.run("peers").out.splitlines()}
    assert rows[bob][:5] == [bob, "agent", "1", "codex", "idle"]
    assert "D4" in rows[bob]
    assert rows[carol] == [carol, "agent", "0"]
    assert {one["handle"] for one in human.run("peers", "-o", "jsonl").lines()} >= {bob, carol, "@human"}
    assert "peers[" in human.run("peers", "-o", "toon").out


def test_what_makes_no_sense_is_refused(human: Shell) -> None:
    _, as_bob = human.new_agent()
    for words, code, exit_code in (
        (("session", "heartbeat"), "INVALID_ARGUMENT", 1),
        (("session", "heartbeat", "--harness", "pi", "--level", "D4"), "USAGE", 2),
        (("session", "heartbeat", "--harness", "pi", "--presence", "asleep"), "USAGE", 2),
        (("session", "heartbeat", "--session", "nobody"), "SESSION_NOT_FOUND", 3),
        (("session", "end", "nobody"), "SESSION_NOT_FOUND", 3),
        (("session", "list", "@human"), "ROLE_FORBIDDEN", 4),
    ):
        done = as_bob.run(*words, "-o", "json")
        assert (done.error()["code"], done.code) == (code, exit_code), words


def test_a_heartbeat_starts_fast(server: ServerProcess) -> None:
    words = ("session", "heartbeat", "--harness", "pi", "--pid", str(os.getpid()), "--presence", "active")
    assert modules_of(server.environ, *words) & (HEAVY - {"typing"}) == set()


def test_one_session_is_written_to_and_writes(human: Shell) -> None:
    bob, as_bob = human.new_agent()
    name = as_bob.json("session", "heartbeat", "--harness", "pi")["session_id"]
    human.json("send", f"{bob}/{name}", "for that one")
    assert as_bob.json("inbox")["messages"][0]["to"] == [f"{bob}/{name}"]
    posted = as_bob.json("send", "@human", "--session", name, "from that one")
    assert human.json("read", posted["message_id"])["session_id"] == name
    assert human.run("send", f"{bob}/nobody", "x").code == 3


def test_quiet_hours_are_set_and_taken_back(human: Shell) -> None:
    bob, as_bob = human.new_agent()
    said = as_bob.json("agent", "quiet", bob, "--from", "22:00", "--until", "07:00", "--zone", "Asia/Tokyo")
    assert said["quiet_hours"] == {"from": "22:00", "until": "07:00", "time_zone": "Asia/Tokyo"}
    there = as_bob.with_environ(TZ="Europe/Oslo")
    here = there.run("agent", "quiet", bob, "--from", "12:00", "--until", "13:00", "--do-not-disturb", "2h")
    assert here.out.startswith(f"{bob} is quiet from 12:00 until 13:00 (Europe/Oslo) and until 20")
    assert human.run("agent", "quiet", bob, "--off", "--disturb").out == f"{bob} can always be woken\n"
    for words in ((), ("--from", "22:00"), ("--do-not-disturb", "soon")):
        assert as_bob.run("agent", "quiet", bob, *words).code == 2
    assert as_bob.run("agent", "quiet", "@human", "--disturb").code == 4
