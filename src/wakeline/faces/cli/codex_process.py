"""Which Codex started us: the one that serves all terminals, a terminal by itself, or a run that nobody watches.

A hook's command uses it, so it imports little.
"""

# pathlib takes longer to import than a command may.
# ruff: noqa: PTH123

from __future__ import annotations

import os

from wakeline.runtime.processes import look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

APP_SERVER, TERMINAL, RUN, UNKNOWN = "app-server", "terminal", "run", "unknown"
RUNS = frozenset({"exec", "e", "review"})  # they take no mail: what is queued into one is lost
MOST_ANCESTORS = 8
VERSION_SECONDS = 2
_PARENT = 1  # field of /proc/<pid>/stat, counted behind the name


class Codex:
    __slots__ = ("pid", "way")

    def __init__(self, way: str, pid: int | None = None) -> None:
        self.way, self.pid = way, pid

    def hello(self) -> dict[str, Any]:
        """What its session says of how it can be reached.  Of the app server's threads the bridge says it."""
        if self.way == RUN:
            return {"transport": "none", "wake_mode": "none"}
        if self.way != TERMINAL or self.pid is None:
            return {}
        reach = {"transport": "queue-command", "wake_mode": "file-watch", "capabilities": ["queue_when_active"]}
        return {**reach, "pid": self.pid, "version": self._version()}

    def facts(self) -> dict[str, Any]:
        """The same for a server that is asked directly."""
        said = self.hello()
        if "pid" in said:
            said["pid_started_at"] = _moment(look(said["pid"])[1])
        version = said.pop("version", None)
        return {**said, "harness_version": version} if version else said

    def _version(self) -> str | None:
        """Of the very program that runs, by its own word."""
        import subprocess

        command = [f"/proc/{self.pid}/exe", "--version"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=VERSION_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            return None
        words = done.stdout.split()
        return words[-1] if words else None


def find_codex() -> Codex:
    pid = os.getppid()
    for _ in range(MOST_ANCESTORS):
        words = _words(pid)
        if words and words[0].rpartition("/")[2] == "codex":
            return Codex(_way(words[1:]), pid)
        pid = _parent(pid)
        if pid <= 1:
            break
    return Codex(UNKNOWN)


def _way(words: list[str]) -> str:
    if "app-server" in words:
        return APP_SERVER
    return RUN if RUNS.intersection(words) else TERMINAL


def _words(pid: int) -> list[str]:
    return _read(f"/proc/{pid:d}/cmdline").decode("utf-8", "replace").split("\0")[:-1]


def _parent(pid: int) -> int:
    fields = _read(f"/proc/{pid:d}/stat").rpartition(b")")[2].split()
    return int(fields[_PARENT]) if len(fields) > _PARENT else 0


def _read(path: str) -> bytes:
    """Nothing where there is no /proc, or the process has just ended."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _moment(instant: int | None) -> str | None:
    if instant is None:
        return None
    from time import gmtime, strftime

    seconds, micros = divmod(instant, 1_000_000)
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(seconds))}.{micros:06d}Z"
