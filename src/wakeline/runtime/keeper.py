"""The keeper of one started process: `python -m wakeline.runtime.keeper FOLDER SECONDS`, started by a bridge.

It leads a session of its own, so it outlives the bridge, and a bridge that comes back finds it by its folder.  The file
`keeper` is made once: who finds it there already starts nothing, so one order never becomes two processes.  The program
has a process group of its own, and what it prints first is put into `head`, where a bridge looks for the name of its
session; when it ends, when its time is over or when the keeper is told to stop, whatever is left
of the group ends too, and `exit` says how it went.  Where it ends the program by force, it also ends what that has
detached into sessions of their own: orphans become children of the keeper.  It knows nothing of servers, and imports
next to nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

from wakeline.runtime.processes import descendants, look

KEPT = 8_192  # bytes of what it prints, the last ones
HEAD = 65_536  # and the first ones
PATIENCE_SECONDS = 5.0
LOOK_SECONDS = 0.5
TAKEN = 3
SET_CHILD_SUBREAPER = 36  # of Linux's prctl


class Ear:
    """Hears that it shall end, whenever it is told so: nothing is cut off in the middle."""

    def __init__(self) -> None:
        self._told = False

    def hear(self, _number: int, _frame: object) -> None:
        self._told = True

    def wait(self, process: subprocess.Popen[bytes], seconds: float) -> str | None:
        """Why it must be ended, or None if it has ended by itself."""
        until = time.monotonic() + seconds
        while not self._told and (left := until - time.monotonic()) > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(left, LOOK_SECONDS))
                return None
        return "stopped" if self._told else "time_limit"


def main(folder: Path, seconds: float) -> int:
    ear = Ear()
    signal.signal(signal.SIGTERM, ear.hear)
    order = folder / "order"
    if not claim(folder, os.getpid()) or not order.exists():  # called off, or even gone
        return TAKEN
    command = json.loads(order.read_bytes())["command"]
    adopt_orphans()
    tail = Tail(folder / "head")
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    except OSError as error:
        finish(folder, {"status": None, "reason": "not_started", "output": str(error.strerror)})
        return 1
    put(folder / "group", str(process.pid))
    reader = threading.Thread(target=tail.read, args=(process.stdout,), daemon=True)
    reader.start()
    reason = ear.wait(process, seconds)
    status = end_group(process)
    if reason is not None:
        end_orphans()
    reader.join(1.0)
    finish(folder, {"status": status, "reason": reason, "output": tail.text})
    return 0


def adopt_orphans() -> None:
    with contextlib.suppress(AttributeError, OSError):  # elsewhere than on Linux they are nobody's
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_orphans() -> None:
    """Again and again, for a while: who is killed may leave children of its own, and may be out of our reach."""
    until = time.monotonic() + PATIENCE_SECONDS
    while (left := descendants(os.getpid())) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_SECONDS / 10)


def claim(folder: Path, pid: int | None) -> bool:
    """Be the one keeper of this order.  With no process it means that there will never be one."""
    _, started_at = look(pid) if pid is not None else (False, None)
    draft = folder / f"keeper.{os.getpid()}"
    draft.write_text(json.dumps({"pid": pid, "started_at": started_at}), encoding="utf-8")
    try:
        os.link(draft, folder / "keeper")
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def end_group(process: subprocess.Popen[bytes]) -> int:
    """End what is left of the group, gently first.  Answers the program's own status."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_SECONDS)
    return process.wait()


class Tail:
    """The end of what a program prints, however much it is; its beginning goes into a file as it comes."""

    def __init__(self, head: Path) -> None:
        self._kept = b""
        self._head, self._room = head, HEAD

    def read(self, stream: IO[bytes]) -> None:
        while chunk := os.read(stream.fileno(), 65_536):
            self._kept = (self._kept + chunk)[-KEPT:]
            if self._room > 0:
                self._begin(chunk[: self._room])

    def _begin(self, chunk: bytes) -> None:
        self._room -= len(chunk)
        with contextlib.suppress(OSError), self._head.open("ab") as file:  # a full disk must not block the program
            file.write(chunk)

    @property
    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")


def finish(folder: Path, document: dict[str, object]) -> None:
    put(folder / "exit", json.dumps(document))


def put(path: Path, text: str) -> None:
    """Whole or not at all."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
