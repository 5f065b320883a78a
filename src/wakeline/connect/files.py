"""Files of other programs, written so that a crash leaves the old one or the new one, and never half of one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

NEW = ".wakeline-new"  # a fixed name: what a crash leaves behind is overwritten by the next run
PRIVATE, OPEN = 0o600, 0o644


def read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def replace(path: Path, content: bytes, mode: int = OPEN) -> None:
    """Put this content in place at once.  A link stays a link; a file that is there keeps its mode and its owner."""
    place = Path(os.path.realpath(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f".{place.name}{NEW}")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        _dress(file.fileno(), place, mode)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, place)  # noqa: PTH105 - the one call that everything here rests on
    _settle(place.parent)


def _dress(descriptor: int, place: Path, mode: int) -> None:
    """What is private becomes so whatever it was."""
    try:
        state = place.stat()
    except FileNotFoundError:
        os.fchmod(descriptor, mode)
        return
    os.fchmod(descriptor, PRIVATE if mode == PRIVATE else state.st_mode & 0o7777)
    if (state.st_uid, state.st_gid) != (os.getuid(), os.getgid()):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, state.st_uid, state.st_gid)


def remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        _settle(path.parent)


def missing_directories(path: Path) -> list[Path]:
    """Those above a file that are not there yet, the innermost first."""
    return [above for above in path.parents if not above.exists()]


def remove_empty(directories: Iterable[Path]) -> None:
    for directory in sorted(set(directories), key=lambda one: len(one.parts), reverse=True):
        with contextlib.suppress(OSError):  # somebody uses it
            directory.rmdir()


def _settle(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
