"""Dormant sessions of real harnesses, brought back by the commands that ship."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests import harness_tools
from tests.activation.ward import SWIFT, Ward, eventually
from tests.harnesses.codex_desk import an_entry
from tests.harnesses.office import acknowledge
from wakeline.testing.model import ModelServer, Say, Use
from wakeline.testing.server import ServerProcess
from wakeline.testing.terminal import end_process
from wakeline.testing.worlds import HarnessSession, World, make_world
from wakeline.testing.worlds.world import residents

pytestmark = pytest.mark.timeout(300)
PROGRAMS = {"claude-code": "claude", "codex": "codex", "opencode": "opencode", "pi": "pi"}
SOUP, COLD = "The soup is ready.", "It is getting cold."
LATE_SECONDS = 4


@contextmanager
def ward_of(harness: str, folder: Path, model: ModelServer) -> Iterator[tuple[Ward, World]]:
    """@bob works in this harness, in a world of its own; the server lives in it too, as on a person's machine."""
    harness_tools.need_terminal()
    with make_world(harness_tools.installed(harness), folder / "world", model) as world:
        subprocess.run(["git", "init", "--quiet"], cwd=world.project, check=True)  # Codex begins nothing elsewhere
        environ = {**world.environ, "PATH": f"{_programs(folder, world)}:{world.environ['PATH']}"}
        settings = {**SWIFT, "dormant_seconds": 3, "bridge_host": ""}
        with ServerProcess(folder / "data", environ=environ, **settings) as server:
            ward = Ward(server, folder)
            _connect(ward, world)
            yield ward, world


def _programs(folder: Path, world: World) -> Path:
    """Its command by the name that people have on their PATH."""
    place = folder / "bin"
    place.mkdir()
    shim = place / PROGRAMS[world.harness]
    shim.write_text(f'#!/bin/sh\nexec {" ".join(world.command)} "$@"\n')
    shim.chmod(0o755)
    return place


def _connect(ward: Ward, world: World) -> None:
    if world.harness == "codex":
        config = world.home / ".codex" / "config.toml"
        config.write_text(config.read_text() + an_entry(ward.server, ward.bob, ward.folder))
        return
    done = subprocess.run(
        [sys.executable, "-m", "wakeline", "connect", world.harness, "--agent", ward.bob.handle, "--yes"],
        env={**world.environ, "WAKELINE_DATA": str(ward.server.data)},
        cwd=world.project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def seat_of(ward: Ward) -> dict[str, Any]:
    found: dict[str, Any] = eventually(
        lambda: next(iter(ward.bob.get("/v1/sessions")["sessions"]), None), lambda: ward.server.output
    )
    return found


def wait_kept(world: World, native_id: str) -> None:
    """A harness writes down what was said a moment after it was; what is killed before that cannot be resumed."""

    def look() -> bool:
        kept = "opencode*.db*" if world.harness == "opencode" else f"*{native_id}.jsonl"
        return any(b"Done." in path.read_bytes() for path in world.home.rglob(kept))

    eventually(look, lambda: sorted(world.home.rglob("*")))


def leave(ward: Ward, world: World, session: HarnessSession) -> None:
    """The terminal is closed, and whatever the harness had running beside it ends."""
    session.stop()
    for pid in residents(world.home):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended by itself
            if pid != ward.server.pid and b"wakeline" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                end_process(pid)


def allow(ward: Ward, allow_: str, **fields: Any) -> None:
    ward.human.do("PUT", f"/v1/agents/{ward.bob.handle}/activation", allow=allow_, **fields)


def slow_down(ward: Ward, world: World) -> None:
    """As on a machine with much to do: our tools come later than a harness that does not wait for them begins."""
    ours = str(Path(sys.executable) if world.harness == "codex" else Path(sys.executable).with_name("wakeline"))
    slow = ward.folder / "bin" / "slow"
    slow.write_text(f'#!/bin/sh\nsleep {LATE_SECONDS}\nexec {ours} "$@"\n')
    slow.chmod(0o755)
    told = [
        path for path in world.home.rglob("*") if path.suffix in (".json", ".toml") and f'"{ours}"' in path.read_text()
    ]
    assert told
    for path in told:
        path.write_text(path.read_text().replace(f'"{ours}"', f'"{slow}"'))


def read_when_told(model: ModelServer, word: str) -> None:
    model.script(word, Use("read_messages"), acknowledge, Say("I have read it."))


def brought_back(ward: Ward, *ways: str) -> dict[str, Any]:
    """What came of the one process that was started in any of these ways."""

    def look() -> dict[str, Any] | None:
        return next((row for row in ward.attempts(*(ways or ("resume", "spawn"))) if row["state"] == "ended"), None)

    found: dict[str, Any] = eventually(look, ward.shown)
    assert (found["exit_status"], found["reason"]) == (0, None), ward.shown()
    return found


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.mark.guarantee("G-ACTIVATION")
@pytest.mark.parametrize("harness", ["codex", "claude-code", "pi", pytest.param("opencode", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "late", [pytest.param(False, id="tools in time"), pytest.param(True, id="tools late", marks=pytest.mark.long)]
)
def test_a_closed_session_is_resumed_and_reads_its_mail(
    harness: str,
    late: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
    model: ModelServer,
) -> None:
    with ward_of(harness, tmp_path, model) as (ward, world):
        session = world.open()
        spoken = session.prompt("good morning")
        session.terminal.wait("Done.")
        wait_kept(world, session.native_id)
        seat = seat_of(ward)
        assert seat["native_id"] == spoken.session
        leave(ward, world, session)
        if late:
            slow_down(ward, world)
        allow(ward, "resume")
        read_when_told(model, "unread message")
        ward.send(SOUP)
        row = brought_back(ward)
        assert (row["result"], row["session_id"]) == ("fallback_resumed", seat["session_id"])
        rung, read = model.wait("unread message", timeout=10), model.wait(SOUP, timeout=10)
        assert {rung.session, read.session} == {spoken.session}
        assert "good morning" in rung.text
        assert ward.bob.unread() == []
        assert {one["way"] for one in ward.attempts()} == {"trigger", "resume"}


@pytest.mark.guarantee("G-ACTIVATION-SESSION")
@pytest.mark.parametrize(
    "harness", ["codex", "pi", *(pytest.param(one, marks=pytest.mark.long) for one in ("claude-code", "opencode"))]
)
def test_a_new_session_is_begun_and_the_next_mail_resumes_it(harness: str, tmp_path: Path, model: ModelServer) -> None:
    with ward_of(harness, tmp_path, model) as (ward, world):
        ward.fall_silent(harness=harness, native_id=None, resumable=False, cwd=str(world.project))
        allow(ward, "spawn")
        read_when_told(model, "This is a new session")
        sent = ward.send(SOUP)
        assert brought_back(ward)["result"] == "fallback_spawned"
        rung, read = model.wait("This is a new session", timeout=10), model.wait(SOUP, timeout=10)
        assert "unread message" in rung.text
        assert f"Thread {sent['thread_id']}" in rung.text
        assert rung.session == read.session
        assert ward.bob.unread() == []
        [seat] = [one for one in ward.bob.get("/v1/sessions", ended=True)["sessions"] if one["native_id"] is not None]
        assert seat["session_id"] == session_told(ward)
        assert (seat["harness"], seat["native_id"], seat["cwd"]) == (harness, read.session, str(world.project))
        assert (seat["ended_at"] is not None, seat["resumable"]) == (True, True)
        read_when_told(model, "unread message")
        ward.send(COLD)
        again = brought_back(ward, "resume")
        assert (again["result"], again["session_id"]) == ("fallback_resumed", seat["session_id"])
        later = model.wait(COLD, after=read.number, timeout=10)
        assert later.session == rung.session
        assert SOUP in later.text
        assert ward.bob.unread() == []
        assert [one["way"] for one in ward.attempts("resume", "spawn")] == ["spawn", "resume"]


def session_told(ward: Ward) -> str:
    """The session that the last attempt has begun, as the log tells it."""
    events = ward.human.get("/v1/log", limit=500)["events"]
    told: str = [one for one in events if one["kind"] == "activation.settled"][-1]["data"]["session_id"]
    return told


@pytest.mark.long
def test_a_thread_that_is_open_in_a_terminal_is_already_active(tmp_path: Path, model: ModelServer) -> None:
    with ward_of("codex", tmp_path, model) as (ward, world):
        session = world.open("--no-daemon")
        spoken = session.prompt("good morning")
        ward.fall_silent(harness="codex", native_id=spoken.session, cwd=str(world.project))
        allow(ward, "resume")
        ward.send(SOUP)
        row = ward.wait_result("already_active")
        assert row["reason"] == "session_open"
        assert len(model.turns(SOUP)) == 0
