"""The real harnesses, connected with the command that people use."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import harness_tools
from tests.faces.command_line import WAKELINE, Shell
from tests.faces.connecting import LISTING, settings_of, shell_in
from wakeline.testing.model import ModelServer, Request, Use
from wakeline.testing.server import ServerProcess
from wakeline.testing.terminal import Terminal
from wakeline.testing.worlds import HarnessSession, World, make_world
from wakeline.testing.worlds.codex import CHOSEN
from wakeline.testing.worlds.world import START_SECONDS

# opencode fetches what its plugins may need before it does anything, which takes as long as it takes.
pytestmark = pytest.mark.timeout(300)
TRUST = "Trust all and continue"
HARNESSES = ("claude-code", "codex", "opencode", "pi")


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=HARNESSES)
def world(request: pytest.FixtureRequest, tmp_path: Path, model: ModelServer) -> Iterator[World]:
    with make_world(harness_tools.installed(request.param), tmp_path / "world", model) as made:
        yield made


@pytest.fixture
def bus(tmp_path: Path, world: World) -> Iterator[ServerProcess]:
    """Its bridge looks for Codex where this world has it."""
    homes = {"CODEX_HOME": str(world.home / ".codex")}
    with ServerProcess(tmp_path / "data", environ=homes, coalesce_seconds=0) as process:
        yield process


@pytest.mark.guarantee("G-CONNECT-HARNESSES")
@pytest.mark.parametrize("world", list(LISTING), indirect=True)
def test_a_real_harness_lists_us_once_connected_and_not_any_more_after(world: World, bus: ServerProcess) -> None:
    shell, words = shell_in(world, bus), LISTING[world.harness]
    assert "wakeline" not in world.run(*words)
    before = settings_of(world)  # only now: some write into their own file at their first start
    shell.json("connect", world.harness, "--yes")
    assert "wakeline" in world.run(*words)
    shell.json("disconnect", world.harness)
    assert "wakeline" not in world.run(*words)
    assert settings_of(world) == before


def test_claude_code_loads_the_plugin_by_itself(tmp_path: Path, model: ModelServer) -> None:
    with (
        make_world(harness_tools.installed("claude-code"), tmp_path / "world", model) as world,
        ServerProcess(tmp_path / "data") as bus,
    ):
        shell = shell_in(world, bus)
        shell.json("connect", "claude-code", "--yes")
        listed = world.run("plugin", "list")
        assert "wakeline@skills-dir" in listed
        assert "✔ loaded" in listed
        assert "Connected" in world.run("mcp", "list")
        shell.json("disconnect", "claude-code")
        assert "wakeline" not in world.run("plugin", "list")


@pytest.mark.parametrize("world", list(LISTING), indirect=True)
def test_a_harness_that_we_start_is_wired_and_its_settings_stay(world: World, bus: ServerProcess) -> None:
    shell = shell_in(world, bus)
    world.run(*LISTING[world.harness])
    before = settings_of(world)
    started = subprocess.run(
        [WAKELINE, "run", world.harness, "--", *LISTING[world.harness]],
        env=shell.environ,
        cwd=world.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    assert "wakeline" in started.stdout
    assert settings_of(world) == before
    assert "wakeline" not in world.run(*LISTING[world.harness])


def test_what_stands_behind_the_dashes_goes_to_the_harness_and_its_code_comes_back(
    tmp_path: Path, model: ModelServer
) -> None:
    with (
        make_world(harness_tools.installed("pi"), tmp_path / "world", model) as world,
        ServerProcess(tmp_path / "data") as bus,
    ):
        shell = shell_in(world, bus)
        assert shell.run("run", "pi", "--", "--version").out == world.run("--version")
        missing = shell.with_environ(PATH="/nowhere").run("run", "pi", "-o", "json")
        assert missing.code == 3
        assert missing.error()["code"] == "HARNESS_NOT_FOUND"


@pytest.mark.guarantee("G-CONNECT-HARNESSES")
def test_mail_wakes_a_session_of_a_connected_harness(world: World, bus: ServerProcess) -> None:
    harness_tools.need_terminal()
    shell = shell_in(world, bus)
    shell.json("connect", world.harness, "--yes", "--agent", "@bob")
    session = world.open()
    spoken = trust_and_prompt(session) if world.harness == "codex" else session.prompt("hello")
    wait_for_a_session(shell)
    posted = shell.json("send", "@bob", "The parser is done.")
    request = world.model.wait(posted["message_id"], timeout=60)
    assert "wl-" in request.text
    assert request.session == spoken.session


@pytest.mark.parametrize("world", ["claude-code", "opencode"], indirect=True)
def test_mail_wakes_a_session_in_a_connected_project_that_is_trusted(world: World, bus: ServerProcess) -> None:
    harness_tools.need_terminal()
    shell, before = shell_in(world, bus), settings_of(world)
    shell.json("connect", world.harness, "--yes", "--agent", "@bob", "--project", str(world.project))
    assert settings_of(world) == before
    session = world.open()
    session.prompt("hello")
    wait_for_a_session(shell)
    posted = shell.json("send", "@bob", "The parser is done.")
    assert "wl-" in world.model.wait(posted["message_id"], timeout=60).text


STARTED = [pytest.param(name, marks=() if name == "codex" else pytest.mark.long) for name in HARNESSES]


@pytest.mark.parametrize("world", STARTED, indirect=True)
@pytest.mark.parametrize("connected", [False, True], ids=["alone", "beside a connected agent"])
def test_mail_wakes_a_session_that_we_start(
    world: World,
    bus: ServerProcess,
    connected: bool,  # noqa: FBT001 - a row of the table
) -> None:
    harness_tools.need_terminal()
    shell = shell_in(world, bus)
    if connected:
        a_hook_of_the_humans_own(world)
        shell.json("connect", world.harness, "--yes", "--agent", "@carol")
    words = (str(WAKELINE), "run", world.harness, "--agent", "@bob", "--", *world.options())
    with Terminal(words, cwd=world.project, environ=shell.environ) as terminal:
        session = settled(world, terminal)
        session.prompt("hello")
        terminal.wait("Done.")
        wait_for_a_session(shell, presence="idle")
        terminal.type("a half written thought")
        world.model.script("unread message", Use("read_messages"))
        shell.json("send", "@bob", "The parser is done.")
        fetched = world.model.wait("The parser is done.", timeout=60)
        assert "wl-" in fetched.text
        assert fetched.session == session.native_id
        terminal.wait("a half written thought")
    told = shell.json("session", "list", "@carol")["sessions"] if connected else []
    assert told == []  # what is connected is silent in a session that is somebody else's


@pytest.mark.parametrize("world", ["codex"], indirect=True)
def test_a_session_of_codex_that_we_start_is_told_of_mail_when_a_turn_begins(world: World, bus: ServerProcess) -> None:
    harness_tools.need_terminal()
    shell = shell_in(world, bus)
    with Terminal((str(WAKELINE), "run", "codex"), cwd=world.project, environ=shell.environ) as terminal:
        trust_hooks(terminal)
        shell.json("send", "@codex", "The parser is done.", "--wake", "next_turn")
        assert "1 unread message" in HarnessSession(world, terminal).prompt("hello").news


def settled(world: World, terminal: Terminal) -> HarnessSession:
    if world.harness == "codex":
        trust_hooks(terminal)
    else:
        terminal.wait(world.ready, START_SECONDS)
        world.settle(terminal)
    return HarnessSession(world, terminal)


def a_hook_of_the_humans_own(world: World) -> None:
    """Codex has them in the file that we write into, too."""
    if world.harness != "codex":
        return
    hook = {"hooks": [{"type": "command", "command": "true"}]}
    (world.home / ".codex/hooks.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook]}}))


def trust_hooks(terminal: Terminal) -> None:
    """As the human does when Codex asks, once, about hooks that are new to it."""
    terminal.wait(TRUST, 60)
    terminal.press_until("2", lambda: TRUST not in terminal.screen or CHOSEN in terminal.screen)
    terminal.press_until("Enter", lambda: TRUST not in terminal.screen)
    terminal.wait("? for shortcuts")


def trust_and_prompt(session: HarnessSession) -> Request:
    """Codex asks its human once about new hooks, when they first say something, unless it has begun without them."""
    session.terminal.submit("hello")
    screen = session.terminal.wait_until(lambda shown: TRUST in shown or "Done." in shown, 60)
    if TRUST in screen:
        session.terminal.press("Down", "Enter")
    return session.world.model.wait("hello", timeout=60)


def wait_for_a_session(shell: Shell, presence: str = "") -> None:
    """One that can be woken: before there was any, its agent is subscribed to nothing, or to a hint on MCP."""
    until = time.monotonic() + 60
    while not any(
        one["levels"].get("D4") == "pass" and presence in one["presence"]
        for one in shell.json("session", "list", "@bob")["sessions"]
    ):
        assert time.monotonic() < until, "no session has come that can be woken"
        time.sleep(0.2)
