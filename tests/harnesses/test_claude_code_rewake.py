"""The hooks of an older Claude Code, run as it runs them: the plugin's script, the event on stdin, the exit code."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wakeline.harnesses.claude_code import plugin
from wakeline.harnesses.claude_code.meeting import Meeting, meeting_folder
from wakeline.harnesses.claude_code.rewake import Waiter, Watched

SESSION = "0b3ab39c-6214-45f5-8838-bc7a270e8b48"
WAKE = 2


class Hooks:
    def __init__(self, folder: Path) -> None:
        plugin.write(folder / "plugin", (sys.executable, "-m", "wakeline"))
        self._script = folder / "plugin" / "hooks" / "rewake"
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
        self.folder = meeting_folder(self.environ)
        self._started: list[subprocess.Popen[str]] = []

    def start(self, part: str, **environ: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["/bin/sh", str(self._script), part],
            env={**self.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        assert process.stdin is not None
        process.stdin.write(json.dumps({"session_id": SESSION, "hook_event_name": "Stop"}))
        process.stdin.close()
        return process

    def register(self, pid: int, session_id: str) -> Path:
        """As Claude Code notes a session of its own."""
        path = Path(self.environ["HOME"]) / ".claude" / "sessions" / f"{pid}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"pid": pid, "sessionId": session_id, "status": "idle"}))
        return path

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    code = process.wait(60)
    assert process.stderr is not None
    return code, process.stderr.read()


@pytest.fixture
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooks]:
    made = Hooks(tmp_path_factory.mktemp("h"))
    yield made
    made.end()


def armed(meeting: Meeting) -> None:
    while not meeting.socket.exists():
        time.sleep(0.05)


def written(path: Path) -> None:
    while not path.read_text():
        time.sleep(0.05)


async def test_a_hook_that_waits_wakes_with_the_doorbell(hooks: Hooks) -> None:
    process = hooks.start("wait")
    await asyncio.to_thread(armed, Meeting(hooks.folder, SESSION))
    came = await Waiter(hooks.folder).ring("there is mail", SESSION)
    assert came.result == "accepted"
    assert await asyncio.to_thread(ended, process) == (WAKE, "there is mail")


async def test_one_hook_waits_for_a_session(hooks: Hooks) -> None:
    first = hooks.start("wait")
    await asyncio.to_thread(armed, Meeting(hooks.folder, SESSION))
    assert await asyncio.to_thread(ended, hooks.start("wait")) == (0, "")
    assert first.poll() is None


@pytest.mark.parametrize("end", ["killed", "cleared"])
def test_a_hook_whose_session_is_gone_waits_no_longer(hooks: Hooks, end: str) -> None:
    with subprocess.Popen(["sleep", "600"]) as host:
        entry = hooks.register(host.pid, SESSION)
        process = hooks.start("wait")
        armed(Meeting(hooks.folder, SESSION))
        if end == "cleared":
            hooks.register(host.pid, "another")
            assert ended(process) == (0, "")
        host.kill()
    if end == "killed":
        assert ended(process) == (0, "")
        assert entry.exists(), "who is killed leaves its entry behind"


async def test_where_no_hook_waits_the_watched_file_is_written(hooks: Hooks) -> None:
    armed_by = hooks.start("arm")
    assert ended(armed_by)[0] == 0
    assert armed_by.stdout is not None
    [watched] = json.loads(armed_by.stdout.read())["hookSpecificOutput"]["watchPaths"]
    ringing = asyncio.create_task(Waiter(hooks.folder).ring("there is mail", SESSION))
    await asyncio.to_thread(written, Path(watched))
    assert await asyncio.to_thread(ended, hooks.start("changed")) == (WAKE, "there is mail")
    assert (await ringing).result == "accepted"
    assert await asyncio.to_thread(ended, hooks.start("changed")) == (0, ""), "the same text wakes once"


async def test_a_session_that_armed_nothing_is_not_rung(hooks: Hooks) -> None:
    came = await Watched(hooks.folder).ring("there is mail", SESSION)
    assert (came.result, came.reason) == ("failed", "not_armed")


@pytest.mark.parametrize("part", ["wait", "arm", "changed"])
def test_where_there_is_an_inbox_the_hooks_do_nothing(hooks: Hooks, part: str) -> None:
    process = hooks.start(part, CLAUDE_CODE_MESSAGING_SOCKET="/tmp/cc-socks/1.sock")
    assert ended(process) == (0, "")
    assert list(hooks.folder.iterdir()) == []


def test_a_hook_that_fails_does_not_wake_the_model(hooks: Hooks) -> None:
    code, _ = ended(hooks.start("nonsense"))  # `wakeline` ends with 2 for this
    assert code == 0


def test_a_folder_that_others_can_enter_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "wakeline").mkdir(mode=0o755)
    with pytest.raises(PermissionError):
        meeting_folder({"XDG_RUNTIME_DIR": str(tmp_path)})
