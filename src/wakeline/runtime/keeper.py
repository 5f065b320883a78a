"""The keeper of one started process: `python -m wakeline.runtime.keeper FOLDER SECONDS`, started by a bridge.

It leads a session of its own, so it outlives the bridge, and a bridge that comes back finds it by its folder.  The file
`keeper` is made once: who finds it there already starts nothing, so one order never becomes two processes.  The program
has a process group of its own; when it ends, when its time is over or when the keeper is told to stop, whatever is left
of the group ends too, and `exit` says how it went.  It knows nothing of servers, and imports next to nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from wakeline.runtime.processes import look

KEPT = 8_192  # bytes of what it prints, the last ones
PATIENCE_SECONDS = 5.0
TAKEN = 3


class Stopped(Exception):
    pass


def main(folder: Path, seconds: float) -> int:
    signal.signal(signal.SIGTERM, _stop)
    if not claim(folder, os.getpid()):
        return TAKEN
    order = json.loads((folder / "order").read_bytes())
    tail = Tail()
    reason = None
    try:
        process = subprocess.Popen(
            order["command"],
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
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        reason = "time_limit"
    except Stopped:
        reason = "stopped"
    status = end_group(process)
    reader.join(1.0)
    finish(folder, {"status": status, "reason": reason, "output": tail.text})
    return 0


def _stop(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


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
    """The end of what a program prints, however much it is."""

    def __init__(self) -> None:
        self._kept = b""

    def read(self, stream: IO[bytes]) -> None:
        while chunk := os.read(stream.fileno(), 65_536):
            self._kept = (self._kept + chunk)[-KEPT:]

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
