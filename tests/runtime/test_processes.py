from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from wakeline.runtime.processes import look

NOBODY = 2**22 + 1  # above the largest process number of Linux


def test_a_process_is_seen_with_its_start() -> None:
    exists, started_at = look(os.getpid())
    assert exists
    assert started_at is not None
    assert abs(started_at / 1e6 - psutil.Process().create_time()) <= 1


def test_nobody_is_not_seen() -> None:
    assert look(NOBODY) == (False, None)


def test_a_process_that_has_ended_is_gone_even_before_its_parent_collects_it() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and still a zombie
        assert look(child.pid) == (False, None)


def test_a_name_full_of_parentheses_confuses_nobody() -> None:
    program = "import sys; open('/proc/self/comm', 'w').write(') R 1 (('); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        exists, started_at = look(child.pid)
        assert exists
        assert abs((started_at or 0) / 1e6 - psutil.Process(child.pid).create_time()) <= 1


def test_without_proc_only_existence_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "exists", lambda _path: False)
    assert look(os.getpid()) == (True, None)
    assert look(1) == (True, None)
    assert look(NOBODY) == (False, None)
