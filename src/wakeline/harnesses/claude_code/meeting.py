"""Where the companion of an older Claude Code and the hooks of the same session meet: a folder for their user only."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path


class Meeting:
    """Where the companion and the hooks of one session meet."""

    def __init__(self, folder: Path, native_id: str) -> None:
        safe = "".join(sign for sign in native_id if sign.isalnum() or sign == "-")[:64]
        self.socket = folder / f"{safe}.sock"
        self.lock = folder / f"{safe}.lock"
        self.signal = folder / f"{safe}.signal"
        self.heard = folder / f"{safe}.heard"


def meeting_folder(environ: Mapping[str, str]) -> Path:
    """Made for its owner only; a folder that somebody else made first is not used."""
    base = environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "wakeline" if base else Path("/tmp") / f"wakeline-{os.getuid()}"  # noqa: S108 - checked below
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} can be entered by others")
    return folder


def read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
