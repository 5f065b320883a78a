from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wakeline.runtime.processes import BRIDGED
from wakeline.testing.server import ServerProcess

THREAD = "01a1e48d-e36a-7fc3-8158-a59b90fec04e"
MARK = "wl-01JD3Z8Q0W4T6N9X2C5V7B1M3K"


@pytest.fixture(params=["bridged", "alone"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """With a bridge on this host, and without one."""
    with ServerProcess(tmp_path / "data", bridge=request.param == "bridged") as process:
        yield process


def hook(server: ServerProcess, token: str, said: Any, *words: str) -> Any:
    """What Codex hears: a JSON object, and that nothing is in its way."""
    done = subprocess.run(
        [sys.executable, "-m", "wakeline", "hook", "codex", *words],
        env={**server.environ, "WAKELINE_TOKEN": token},
        input=said if isinstance(said, str) else json.dumps(said),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def begin(prompt: str) -> dict[str, str]:
    return {
        "hook_event_name": "UserPromptSubmit",
        "session_id": THREAD,
        "turn_id": "turn-1",
        "cwd": "/tmp",
        "prompt": prompt,
    }


def session_of(server: ServerProcess, token: str) -> dict[str, Any]:
    [session] = server.call("GET", "/v1/sessions", token=token).json()["sessions"]
    return dict(session)


def test_unread_mail_is_announced_in_the_turn_that_begins(server: ServerProcess) -> None:
    token = server.add_agent("@bob")
    assert hook(server, token, begin("hello")) == {}
    server.call(
        "POST", "/v1/messages", {"to": ["@bob"], "body": "a secret body", "subject": "Soup", "wake_policy": "next_turn"}
    )
    told = hook(server, token, begin("hello again"))["hookSpecificOutput"]
    assert told["hookEventName"] == "UserPromptSubmit"
    assert "1 unread message from @human" in told["additionalContext"]
    assert "a secret body" not in told["additionalContext"]
    session = session_of(server, token)
    assert (session["harness"], session["native_id"], session["cwd"]) == ("codex", THREAD, "/tmp")
    assert (session["presence"], session["active_turn_id"]) == ("active", "turn-1")


def test_a_session_is_on_this_machine_as_its_bridge_calls_it(tmp_path: Path) -> None:
    """Also of a hook that finds its bridge away just now."""
    with ServerProcess(tmp_path / "data", bridge=False) as server:
        (server.data / BRIDGED).write_text("nickname\n")
        token = server.add_agent("@bob")
        hook(server, token, begin("hello"))
        assert session_of(server, token)["host"] == "nickname"


def test_mail_to_oneself_is_announced_when_the_next_session_begins(server: ServerProcess) -> None:
    token = server.add_agent("@bob")
    server.call("POST", "/v1/messages", {"to": ["@bob"], "body": "go on with the soup"}, token=token)
    told = hook(server, token, begin("hello"))["hookSpecificOutput"]
    assert "from yourself" in told["additionalContext"]


def test_a_prompt_that_is_our_doorbell_is_not_announced_again(server: ServerProcess) -> None:
    token = server.add_agent("@bob")
    server.call("POST", "/v1/messages", {"to": ["@bob"], "body": "soup"})
    assert hook(server, token, begin(f"Wakeline: you have 1 unread message. [{MARK}]")) == {}


def test_a_sub_agent_is_no_session(server: ServerProcess) -> None:
    token = server.add_agent("@bob")
    assert hook(server, token, {**begin("look into it"), "agent_id": "a1", "agent_type": "worker"}) == {}
    assert server.call("GET", "/v1/sessions", token=token).json()["sessions"] == []


def test_a_turn_that_ends_makes_the_session_idle(server: ServerProcess) -> None:
    token = server.add_agent("@bob")
    hook(server, token, begin("hello"))
    for event in ("Stop", "Interrupt"):
        assert hook(server, token, {"hook_event_name": event, "session_id": THREAD, "cwd": "/tmp"}) == {}
        assert session_of(server, token)["presence"] == "idle"


def test_nothing_that_is_wrong_with_us_is_in_the_way_of_a_turn(server: ServerProcess) -> None:
    token = server.add_agent("@bob")
    assert hook(server, token, "no JSON") == {}
    assert hook(server, token, {"hook_event_name": "UserPromptSubmit"}) == {}
    assert hook(server, token, {**begin("hello"), "hook_event_name": "SomethingNew"}) == {}
    assert hook(server, "no token", begin("hello")) == {}
    server.stop()
    assert hook(server, token, begin("hello")) == {}
