"""The folder of an order with real keepers: what is ours is ended, what is not is left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wakeline.core.instant import SECOND
from wakeline.runtime import keeper, processes
from wakeline.runtime.orders import Folder, Order, clean, keep_command

PATIENCE = 20.0
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def folder_in(place: Path, command: list[str]) -> Folder:
    folder = Folder(place / "order", processes.look)
    folder.begin(Order("default", "a1", 1, None, command))
    return folder


@contextmanager
def kept(folder: Folder, seconds: int = 60) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(keep_command(folder.path, seconds), start_new_session=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE)


@contextmanager
def a_session() -> Iterator[subprocess.Popen[bytes]]:
    """Somebody else's, who says what they hear."""
    with subprocess.Popen(["cat"], start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def answer(process: subprocess.Popen[bytes]) -> bytes:
    """Nothing, if it was killed: that comes first, whenever it is carried out."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"still here\n")
    process.stdin.flush()
    return process.stdout.readline()


def wait_until(look: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not look.exists():
        assert time.monotonic() < until, look
        time.sleep(0.02)


def write_keeper(folder: Folder, pid: int, started_at: int) -> None:
    keeper.put(folder.path / "keeper", json.dumps({"pid": pid, "started_at": started_at}))


@pytest.mark.guarantee("G-ACTIVATION-OWNED")
def test_a_number_that_was_given_again_is_left_alone(tmp_path: Path) -> None:
    folder = folder_in(tmp_path, SLEEP)
    with a_session() as somebody:
        _, started_at = processes.look(somebody.pid)
        assert started_at is not None
        write_keeper(folder, somebody.pid, started_at - 3_600 * SECOND)
        folder.end()
        assert answer(somebody) == b"still here\n"


@pytest.mark.guarantee("G-ACTIVATION-OWNED")
def test_a_session_of_the_same_number_after_the_machine_was_started_again_is_left_alone(tmp_path: Path) -> None:
    """Its leader has ended, as that of a service does which went into the background."""
    folder = folder_in(tmp_path, SLEEP)
    booted_at = processes.booted_at()
    assert booted_at is not None
    words = f"import subprocess, sys; print(subprocess.Popen({SLEEP!r}, stdout=subprocess.DEVNULL).pid, flush=True)"
    with subprocess.Popen([sys.executable, "-c", words], start_new_session=True, stdout=subprocess.PIPE) as leader:
        assert leader.stdout is not None
        service = int(leader.stdout.readline())
    try:
        assert processes.members(leader.pid) == [service]
        write_keeper(folder, leader.pid, booted_at - 3_600 * SECOND)
        folder.end()
        assert processes.members(leader.pid) == [service]
    finally:
        os.kill(service, signal.SIGKILL)


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
def test_a_keeper_that_comes_late_starts_nothing(tmp_path: Path) -> None:
    folder = folder_in(tmp_path, ["touch", str(tmp_path / "started")])
    assert folder.call_off()
    with kept(folder) as process:
        assert process.wait(PATIENCE) == keeper.TAKEN
    assert not (tmp_path / "started").exists()


@pytest.mark.guarantee("G-ACTIVATION-ONCE")
def test_a_keeper_that_comes_while_the_folder_is_removed_starts_nothing(tmp_path: Path) -> None:
    folder = folder_in(tmp_path, ["touch", str(tmp_path / "started")])
    folder.call_off()
    (folder.path / "order").unlink()  # what `remove` does first; then the other files go, in any order
    (folder.path / "keeper").unlink()
    with kept(folder) as process:
        assert process.wait(PATIENCE) == keeper.TAKEN
    assert not (tmp_path / "started").exists()


def test_a_keeper_that_is_told_to_stop_at_once_ends_what_it_has_just_started(tmp_path: Path) -> None:
    folder = folder_in(tmp_path, SLEEP)
    with kept(folder) as process:
        wait_until(folder.path / "keeper")  # the program is started after that
        folder.end()
        assert process.wait(PATIENCE) == 0
    left = folder.exit
    assert left is not None
    assert (left.status, left.reason) == (-signal.SIGTERM, "stopped")


@pytest.mark.guarantee("G-ACTIVATION-OWNED")
def test_what_has_ended_by_itself_may_leave_a_service_but_nothing_in_its_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    words = (
        f"import subprocess; made = [subprocess.Popen({SLEEP!r}, start_new_session=apart) for apart in (False, True)]; "
        f"open({str(pids)!r}, 'w').write(' '.join(str(one.pid) for one in made))"
    )
    folder = folder_in(tmp_path, [sys.executable, "-c", words])
    with kept(folder) as process:
        assert process.wait(PATIENCE) == 0
    grouped, service = map(int, pids.read_text().split())
    try:
        assert not processes.look(grouped)[0]
        assert processes.look(service)[0]
    finally:
        os.kill(service, signal.SIGKILL)


@pytest.mark.guarantee("G-ACTIVATION-NO-BYPASS")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENCODE_PERMISSION", '{"*":"allow"}'),
        ("OPENCODE_PERMISSION", '{\n  "bash": "ask",\n  "*": "allow"\n}'),
        ("OPENCODE_PERMISSION", '"allow"'),
        ("OPENCODE_CONFIG_CONTENT", '{"permission": "allow"}'),
        ("CLAUDE_CODE_SANDBOXED", "1"),
        ("CLAUDE_CODE_ENABLE_AUTO_MODE", "1"),
        ("CLAUDE_CODE_EVEN_MORE_DANGEROUSLY_SKIP_PERMISSIONS", "1"),
    ],
)
def test_a_bypass_in_the_environment_is_not_passed_on(name: str, value: str) -> None:
    assert clean({name: value, "PATH": "/bin"}) == {"PATH": "/bin"}


def test_marks_of_harnesses_and_our_secrets_are_not_passed_on_and_the_rest_is() -> None:
    kept = {"OPENCODE_CONFIG": "/etc/opencode.json", "ANTHROPIC_API_KEY": "key"}
    assert clean({**kept, "CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s", "WAKELINE_TOKEN": "t"}) == kept


def test_a_single_right_in_the_environment_is_passed_on() -> None:
    """To name single tools or commands that are allowed is no bypass."""
    given = {"OPENCODE_PERMISSION": '{"git *":"allow","*":"deny"}'}
    assert clean(given) == given
