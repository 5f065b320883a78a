"""Look at a process of this host: is it there, and since when.  The command line uses it too, so it imports little."""

from __future__ import annotations

import os
from collections.abc import Iterator

MICROSECONDS = 1_000_000
_STATE, _PARENT, _SESSION, _FOREGROUND, _START = 0, 1, 3, 5, 19  # fields of /proc/<pid>/stat, counted behind the name
_GONE = ("Z", "X", "x")  # ended, only not yet collected by its parent


BRIDGED = "bridge.host"  # in a data directory: what its bridge calls this host


def host_name() -> str:
    return os.uname().nodename


def bridged_name(data: str | None) -> str:
    """What sessions must call this host, so that the bridge of this data directory rings in them.

    It may have another name than the system's, by a setting or by its token.  Where none ever ran, the system's.
    """
    if data is None:
        return host_name()
    try:
        return _read(f"{data}/{BRIDGED}").decode("utf-8", "replace").strip() or host_name()
    except OSError:
        return host_name()


def look(pid: int) -> tuple[bool, int | None]:
    """Whether there is such a process and, where /proc tells it, when it started (microseconds since 1970)."""
    if not os.path.exists("/proc/self/stat"):  # noqa: PTH110 - pathlib takes longer to import than a command may
        return _exists(pid), None
    try:
        # The name may hold anything, also spaces and parentheses; what we need stands behind its last one.
        fields = _read(f"/proc/{pid:d}/stat").rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return _exists(pid), None  # /proc may hide what is another user's
    if fields[_STATE].decode() in _GONE:
        return False, None
    since_boot = int(fields[_START]) * MICROSECONDS // os.sysconf("SC_CLK_TCK")
    return True, _booted_at() + since_boot


def foreground(pid: int) -> int | None:
    """The leader of the processes that have a process's terminal now, or None if it has none or nobody can tell."""
    try:
        fields = _read(f"/proc/{pid:d}/stat").rpartition(b")")[2].split()
    except OSError:
        return _ask_foreground(pid)
    return int(fields[_FOREGROUND]) if int(fields[_FOREGROUND]) > 0 else None


def members(session: int) -> list[int]:
    """The processes of a session, where /proc tells it."""
    return [pid for pid, fields in _all() if int(fields[_SESSION]) == session]


def descendants(pid: int) -> list[int]:
    """Its children, their children and so on, where /proc tells it."""
    parents = [(int(fields[_PARENT]), child) for child, fields in _all()]
    found, before = {pid}, 0
    while len(found) > before:
        before = len(found)
        found.update(child for parent, child in parents if parent in found)
    return sorted(found - {pid})


def _all() -> Iterator[tuple[int, list[bytes]]]:
    try:
        names = [name for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - as above
    except FileNotFoundError:
        return
    for name in names:
        try:
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
        except OSError:
            continue  # it has just ended
        if fields[_STATE].decode() not in _GONE:
            yield int(name), fields


def booted_at() -> int | None:
    """When this machine was started, where /proc tells it."""
    return _booted_at() if os.path.exists("/proc/stat") else None  # noqa: PTH110 - as above


def _ask_foreground(pid: int) -> int | None:
    """Where there is no /proc."""
    import subprocess  # noqa: PLC0415 - most commands need not load it

    done = subprocess.run(["ps", "-o", "tpgid=", "-p", str(pid)], capture_output=True, text=True, check=False)
    found = done.stdout.strip()
    return int(found) if found.isdecimal() and int(found) > 0 else None


def _booted_at() -> int:
    for line in _read("/proc/stat").splitlines():
        if line.startswith(b"btime "):
            return int(line.split()[1]) * MICROSECONDS
    raise LookupError("/proc/stat has no btime")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        return file.read()


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it is somebody else's
    return True
