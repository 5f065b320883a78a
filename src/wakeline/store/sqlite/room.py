"""Room in the write-ahead log, made before it is needed.

A log that grows changes its file's size with every commit, and the disk syncs that too: a third of the time of a lone
commit.  One that is written over does not, and after its first checkpoint SQLite writes it over anyway.  So a log that
is in use is brought to the size of a checkpoint early, a piece after each commit.  To SQLite, zeros behind the last
frame are nothing: they carry no checksum of the frames before them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from wakeline.store.sqlite.connection import CHECKPOINT_PAGES

PIECE = bytes(1 << 20)
ENOUGH_BYTES = CHECKPOINT_PAGES * 4096
SPARE_BYTES = 4 * ENOUGH_BYTES  # left to others, or no room is made
IN_USE_COMMITS = 32  # whoever writes less than this needs no room


class Room:
    def __init__(self, database: Path) -> None:
        self._log = database.with_name(f"{database.name}-wal")
        self._commits = 0
        self._is_full = False

    def make(self) -> None:
        """Between two transactions of the only writer: nobody else writes behind the end."""
        self._commits += 1
        if self._is_full or self._commits < IN_USE_COMMITS:
            return
        self._is_full = True  # also when the disk does not let us; SQLite says it better
        with suppress(OSError):
            self._is_full = _grown(self._log) >= ENOUGH_BYTES


def _grown(log: Path) -> int:
    file = os.open(log, os.O_WRONLY | os.O_CLOEXEC)
    try:
        size, disk = os.fstat(file).st_size, os.fstatvfs(file)
        if disk.f_bavail * disk.f_frsize < SPARE_BYTES:
            return ENOUGH_BYTES  # it is scarce here
        if size < ENOUGH_BYTES:
            try:
                size += os.pwrite(file, PIECE, size)
                os.fdatasync(file)
            except OSError:
                os.ftruncate(file, size)  # a disk this full needs it for what counts
                raise
        return size
    finally:
        os.close(file)
