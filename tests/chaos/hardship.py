"""Circumstances in which a server may find itself: no rights, no space, no luck at starting."""

from __future__ import annotations

import ctypes
import os
import pwd
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from wakeline.testing.server import COMMAND

PATIENCE = 60
T = TypeVar("T")


class Refusal(NamedTuple):
    code: int
    said: str

    def names(self, error: str) -> None:
        """Clear to a person: our code, a hint, no traceback, and an exit code that programs notice."""
        assert self.code > 0, self.said
        assert error in self.said, self.said
        assert "hint: " in self.said
        assert "Traceback" not in self.said, self.said


def refused_start(data: Path, *, command: Sequence[str] = COMMAND, **settings: str) -> Refusal:
    """Start a server that must not start, and hear what it says."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    environ |= {"WAKELINE_DATA": str(data), "WAKELINE_PORT": "0"}
    environ |= {f"WAKELINE_{name.upper()}": value for name, value in settings.items()}
    done = subprocess.run(command, env=environ, check=False, capture_output=True, text=True, timeout=PATIENCE)
    return Refusal(done.returncode, done.stdout + done.stderr)


def eventually(look: Callable[[], T | None], what: str) -> T:
    """Look until there is something to see."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    pytest.fail(f"never happened: {what}")


# -- without rights ---------------------------------------------------------------------------------------------------


class Bound(NamedTuple):
    """How to run something that file permissions bind, and in whose name it then writes."""

    prefix: tuple[str, ...]
    user: int
    group: int


@cache
def bound() -> Bound:
    """Ourselves unless we are root; then `nobody` if it can run our Python; else root without its special right."""
    ourselves = Bound((), os.geteuid(), os.getegid())
    if os.geteuid() != 0:
        return ourselves
    nobody = pwd.getpwnam("nobody")
    drop = f"import os, sys; os.setgroups([]); os.setgid({nobody.pw_gid}); os.setuid({nobody.pw_uid})"
    as_nobody = (sys.executable, "-c", f"{drop}; os.execv(sys.argv[1], sys.argv[1:])")
    if _succeeds(*as_nobody, sys.executable, "-c", "import wakeline.runtime.bootstrap"):
        return Bound(as_nobody, nobody.pw_uid, nobody.pw_gid)
    without_right = (sys.executable, __file__)
    with tempfile.TemporaryDirectory() as closed:
        Path(closed).chmod(0o500)
        if _succeeds(*without_right, "touch", f"{closed}/file"):
            pytest.skip("NOT TESTED: root cannot be bound by file permissions here")
    return ourselves._replace(prefix=without_right)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True, timeout=PATIENCE).returncode == 0


def _give_up_override() -> None:
    """CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH are gone for what is executed next."""
    drop_from_bounding_set = 24
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2):
        if libc.prctl(drop_from_bounding_set, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


# -- without space ----------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A file system of its own, and so small that it can be filled."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: only root can mount the small disk that this test fills")
    path.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", path],
        check=False,
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        pytest.skip(f"NOT TESTED: no small disk to fill here: {made.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


def fill(ballast: Path) -> None:
    """Take all the space that is left."""
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue


if __name__ == "__main__":
    _give_up_override()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - that is the point
