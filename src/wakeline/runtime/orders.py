"""The orders that a bridge has carried out or was about to, on disk: a folder for each, which outlives the bridge.

`order` is written before anything is started, `keeper` by the one process that keeps it, `head` while it prints its
first words, `exit` when it is over.  So after any crash the folder says what there is to adopt, to end, or to call off.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from wakeline.core.launch import find_bypass
from wakeline.core.session import START_TOLERANCE, Sighting
from wakeline.endpoint import HARNESS_MARKS
from wakeline.runtime import keeper, processes

Look = Callable[[int], Sighting]
T = TypeVar("T")

# What else a harness sets in the processes of a session: with these a new one would take itself for part of another.
SESSION_MARKS = (
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SSE_PORT",
)
OURS = "WAKELINE_"  # our own secrets, and who we are


class Order(msgspec.Struct, frozen=True):
    workspace: str
    activation_id: str
    fence: int
    harness: str | None
    command: list[str]
    cwd: str | None = None  # where it is started
    shipped: bool = False  # the harness's own command, which names its session; an operator's may print anything


class Kept(msgspec.Struct, frozen=True):
    pid: int | None
    started_at: int | None = None


class Exit(msgspec.Struct, frozen=True):
    status: int | None
    reason: str | None
    output: str


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment for somebody else: nothing of a harness that may have started us, none of our secrets, no bypass.

    A variable may set a harness's permissions aside as well as a word of a command can.
    """
    marks = {*HARNESS_MARKS, *SESSION_MARKS}
    return {
        name: value
        for name, value in environ.items()
        if name not in marks and not name.startswith(OURS) and find_bypass([f"{name}={value}"]) is None
    }


def keep_command(folder: Path, seconds: int) -> list[str]:
    return [sys.executable, "-m", "wakeline.runtime.keeper", str(folder), str(seconds)]


class Folder:
    def __init__(self, path: Path, look: Look) -> None:
        self.path = path
        self._look = look

    def begin(self, order: Order) -> None:
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        keeper.put(self.path / "order", msgspec.json.encode(order).decode())

    @property
    def order(self) -> Order | None:
        return self._read("order", Order)

    @property
    def keeper(self) -> Kept | None:
        return self._read("keeper", Kept)

    @property
    def exit(self) -> Exit | None:
        return self._read("exit", Exit)

    @property
    def head(self) -> str:
        """What it printed first."""
        try:
            return (self.path / "head").read_text("utf-8", "replace")
        except OSError:
            return ""

    def _read(self, name: str, kind: type[T]) -> T | None:
        try:
            return msgspec.json.decode((self.path / name).read_bytes(), type=kind)
        except (OSError, msgspec.MsgspecError):
            return None

    def call_off(self) -> bool:
        """Make sure that it is never started.  False: somebody keeps it already."""
        return self.keeper is None and keeper.claim(self.path, None)

    @property
    def is_kept(self) -> bool:
        """Is its keeper still there?  A number that was given again is somebody else's."""
        kept = self.keeper
        if kept is None or kept.pid is None:
            return False
        exists, started_at = self._look(kept.pid)
        if not exists or None in (started_at, kept.started_at):
            return exists
        return abs((started_at or 0) - (kept.started_at or 0)) <= START_TOLERANCE

    def end(self) -> None:
        """Tell the keeper to end it; where there is none any more, end what is left of its session ourselves."""
        kept = self.keeper
        if kept is None or kept.pid is None or self.exit is not None:
            return
        if self.is_kept:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(kept.pid, signal.SIGTERM)
            return
        for pid in self._left_over(kept.pid, kept.started_at):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _left_over(self, session: int, started_at: int | None) -> list[int]:
        """The processes of a session whose leader is gone.

        Nobody is given its number while one of them is there.  So if somebody has it, or the machine was started since,
        a session of that number is not ours.
        """
        taken, _ = self._look(session)
        booted_at = processes.booted_at()
        if taken or started_at is None or booted_at is None or started_at < booted_at - START_TOLERANCE:
            return []
        return processes.members(session)

    def remove(self) -> None:
        """The order first: a keeper that comes late must not find it without the file that calls it off."""
        with contextlib.suppress(OSError):
            (self.path / "order").unlink()
        shutil.rmtree(self.path, ignore_errors=True)


class Orders:
    def __init__(self, place: Path, look: Look) -> None:
        self._place = place
        self._look = look

    def folder(self, activation_id: str) -> Folder:
        return Folder(self._place / activation_id, self._look)

    def all(self, workspace: str) -> dict[str, Folder]:
        names = [path.name for path in self._place.iterdir() if path.is_dir()] if self._place.is_dir() else []
        folders = {name: self.folder(name) for name in names}
        return {
            name: folder
            for name, folder in folders.items()
            if (order := folder.order) is None or order.workspace == workspace
        }
