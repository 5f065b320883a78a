"""A pane that was connected by hand, and the whole way of a message into it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import harness_tools
from tests.adapters import composer
from tests.faces.command_line import Shell
from wakeline.runtime.processes import BRIDGED, foreground, host_name
from wakeline.testing.server import ServerProcess
from wakeline.testing.terminal import Terminal

PATIENCE = 60.0


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", coalesce_seconds=0) as process:
        yield process


@pytest.fixture
def pane(tmp_path: Path) -> Iterator[Terminal]:
    harness_tools.need_terminal()
    words = [sys.executable, composer.__file__, str(tmp_path / "log"), "glyph"]
    with Terminal(words, cwd=tmp_path, environ={"PATH": os.environ["PATH"]}) as terminal:
        terminal.wait("Ask anything")
        yield terminal


def beside(pane: Terminal, bus: ServerProcess) -> Shell:
    """Somebody in another pane of the same tmux."""
    return Shell({**bus.environ, "TMUX": f"{pane.socket},1,0"})


def heard(log: Path, lines: int) -> list[str]:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        said = log.read_text().splitlines() if log.exists() else []
        if len(said) >= lines:
            return said
        time.sleep(0.1)
    pytest.fail("nothing was typed")


def until(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def test_mail_is_typed_into_a_connected_pane_and_not_after_disconnect(
    pane: Terminal, bus: ServerProcess, tmp_path: Path
) -> None:
    shell = beside(pane, bus)
    connected = shell.json("connect", "tmux", "--pane", "%0", "--agent", "@bob")
    posted = shell.json("send", "@bob", "The parser is done.")
    said = heard(tmp_path / "log", 1)
    assert posted["message_id"] in said[0]
    assert len(said) == 1
    [session] = shell.json("session", "list", "@bob")["sessions"]
    assert session["session_id"] == connected["session_id"]
    assert session["levels"]["D4"] == "n/a"
    bob = shell.with_environ(WAKELINE_TOKEN_FILE=connected["token_file"])
    assert bob.json("inbox")["unread"] == 1
    shell.json("disconnect", "tmux", "--pane", "%0")
    assert shell.json("session", "list", "@bob")["sessions"] == []
    assert not Path(connected["token_file"]).exists()
    assert shell.run("disconnect", "tmux", "--pane", "%0").code == 3


def test_a_pane_is_rung_by_a_bridge_that_has_another_name_than_its_machine(pane: Terminal, tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", coalesce_seconds=0, bridge_host="nickname") as bus:
        until((bus.data / BRIDGED).exists)
        shell = beside(pane, bus)
        shell.json("connect", "tmux", "--pane", "%0", "--agent", "@bob")
        posted = shell.json("send", "@bob", "The parser is done.")
        assert posted["message_id"] in heard(tmp_path / "log", 1)[0]
        [session] = shell.json("session", "list", "@bob")["sessions"]
        assert (session["host"], session["liveness"]) == ("nickname", "live")


@pytest.mark.guarantee("G-TMUX-GIVEN")
def test_a_pane_is_for_the_agent_that_its_user_gave_it_to(pane: Terminal, bus: ServerProcess, tmp_path: Path) -> None:
    """Whoever holds an agent's token can say that its session is any pane; that alone types nothing there."""
    shell = beside(pane, bus)
    mallory = shell.with_environ(WAKELINE_TOKEN=bus.add_agent("@mallory"))
    shell.json("send", "@mallory", "Type this into somebody's pane.")
    pid = str(foreground(pane.pid))
    here = ("--native-id", f"{pane.socket},%0", "--host", host_name(), "--pid", pid, "--transport", "tmux")
    mallory.json(
        "session", "heartbeat", "--harness", "python", *here, "--capability", "keystrokes", "--presence", "idle"
    )
    [delivery] = until(lambda: [one for one in mallory.json("deliveries", "list")["deliveries"] if one["outcome"]])
    assert (delivery["outcome"], delivery["reason"]) == ("skipped", "pane_not_given")
    shown = mallory.json("deliveries", "show", delivery["delivery_id"])
    assert "wakeline connect tmux --agent @mallory" in shown["steps"][-1]["detail"]["detail"]
    [subscription] = mallory.json("wake", "list")["subscriptions"]
    [held] = mallory.json("wake", "show", subscription["subscription_id"])["held"]
    assert held["reason"] == "session_refused"
    until(lambda: mallory.json("session", "list", "@mallory")["sessions"][0]["presence"] == "unknown")
    assert shell.json("connect", "tmux", "--pane", "%0", "--agent", "@bob")["handle"] == "@bob"
    posted = shell.json("send", "@bob", "The parser is done.")
    assert posted["message_id"] in heard(tmp_path / "log", 1)[0]
    shell.json("disconnect", "tmux", "--pane", "%0")
    words = ["tmux", "-S", str(pane.socket), "show-options", "-p", "-t", "%0"]
    assert "wakeline" not in subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert len(heard(tmp_path / "log", 1)) == 1


def test_a_draft_holds_mail_back_until_it_is_gone(pane: Terminal, bus: ServerProcess, tmp_path: Path) -> None:
    shell = beside(pane, bus)
    pane.type("half")
    pane.wait("half")
    connected = shell.json("connect", "tmux", "--pane", "%0", "--agent", "@bob")
    posted = shell.json("send", "@bob", "The parser is done.")
    until = time.monotonic() + PATIENCE
    while shell.json("session", "list", "@bob")["sessions"][0]["presence"] != "userTyping":
        assert time.monotonic() < until
    assert "half" in pane.screen
    assert not (tmp_path / "log").exists()
    pane.press("BSpace", "BSpace", "BSpace", "BSpace")
    assert posted["message_id"] in heard(tmp_path / "log", 1)[0]
    assert connected["handle"] == "@bob"


def test_a_pane_without_a_program_or_without_a_name_is_refused(bus: ServerProcess, tmp_path: Path) -> None:
    harness_tools.need_terminal()
    with Terminal(["/bin/sh"], cwd=tmp_path, environ={"PATH": os.environ["PATH"]}) as terminal:
        shell = beside(terminal, bus)
        for words, code in (((), 2), (("--pane", "%9"), 3), (("--pane", "%0"), 1)):
            assert shell.run("connect", "tmux", *words).code == code
        assert shell.json("session", "list")["sessions"] == []
