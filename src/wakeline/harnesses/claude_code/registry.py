"""What Claude Code itself writes down about a running session: `sessions/<pid>.json` in its configuration folder.

It is the only source that knows of a turn that the human cut off: Esc fires no hook.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

MILLISECOND = 1_000


class State(StrEnum):
    IDLE = "idle"
    SHELL = "shell"  # idle, with a command of its own still running in the background: it can be woken
    BUSY = "busy"
    WAITING = "waiting"  # a dialog is open


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    """As much of the file as we go by.  Instants there are milliseconds."""

    pid: int
    session_id: str
    version: str = ""
    status: str = ""
    updated_at: int = 0
    status_updated_at: int = 0
    messaging_socket_path: str | None = None

    @property
    def state(self) -> State | None:
        return next((state for state in State if state == self.status), None)

    @property
    def changed_at(self) -> int:
        return (self.status_updated_at or self.updated_at) * MILLISECOND


_decode = msgspec.json.Decoder(Entry).decode


class Registry:
    """The entry of one session, found by its process and read again when it changed."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._path = folder / f"{pid}.json"
        self._stamp: tuple[int, int] | None = None
        self._entry: Entry | None = None

    def look(self) -> Entry | None:
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp != self._stamp:
                self._entry = _decode(self._path.read_bytes())
                self._stamp = stamp
        except (OSError, msgspec.MsgspecError):  # gone, or half written: what was read before still stands
            pass
        return self._entry


def folder(environ: Mapping[str, str]) -> Path:
    named = environ.get("CLAUDE_CONFIG_DIR")
    config = Path(named) if named else Path(environ.get("HOME") or "~") / ".claude"
    return config.expanduser() / "sessions"


def find_process(sessions: Path, native_id: str, parent: int) -> int:
    """The process of the session: our parent, unless something stands between, such as a shell."""
    if (sessions / f"{parent}.json").exists():
        return parent
    return process_of(sessions, native_id) or parent


def process_of(sessions: Path, native_id: str) -> int | None:
    pids = (int(path.stem) for path in sessions.glob("*.json") if path.stem.isdecimal())
    return next((pid for pid in pids if holds(sessions, pid, native_id)), None)


def holds(sessions: Path, pid: int, native_id: str) -> bool:
    """Is this process there, and does it have this session now?"""
    entry = Registry(sessions, pid).look()
    return entry is not None and entry.session_id == native_id and is_there(pid)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
