"""Ringing by `codex queue`: the program that is run is that of the process which the session names."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.store.builders import agent
from tests.store.subscribing import session
from wakeline.adapters.codex.queue import CodexQueue, is_codex
from wakeline.core.log import Workspace
from wakeline.core.parcel import Parcel, Refused
from wakeline.runtime.processes import look

BOB = agent(Workspace(1, "default", "e", 0, 0, 1, 0), "@bob")


@contextmanager
def running(*command: str) -> Iterator[int]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()  # its program is in place
            yield process.pid
        finally:
            process.kill()


def parcel(pid: int) -> Parcel:
    seat = session(
        BOB, native_id="t", transport="queue-command", pid=pid, pid_started_at=look(pid)[1], capabilities="[]"
    )
    return Parcel("D", "E", "S", 1, "bridge-daemon", None, b"{}", (), timedelta(seconds=20), session=seat)


async def test_a_session_cannot_have_another_program_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("queue").write_text("open('ran', 'w')")  # what a Python would run for `python queue --thread …`
    with running(sys.executable, "-c", "print(1, flush=True); input()") as pid:
        result = await CodexQueue(look).deliver(parcel(pid))
    assert isinstance(result, Refused)
    assert result.reason == "process_not_codex"
    assert not Path("ran").exists()


def test_a_codex_is_known_by_its_program(tmp_path: Path) -> None:
    program = tmp_path / "codex"
    shutil.copy(shutil.which("cat") or "", program)
    with subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"there\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"there\n"
        assert is_codex(process.pid)
        process.stdin.close()
    assert not is_codex(None)
