"""A bridge's place on its host: one bridge for a data directory, its id, and the socket that companions find it by."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from wakeline.endpoint import MAX_SOCKET_PATH
from wakeline.errors import Unusable

BACKLOG = 128


class HostLock:
    """Held while a bridge runs; the system takes it back when its holder dies.  The file keeps the bridge's id.

    The id survives a restart, so a bridge that was killed need not wait for the lease of its former life.
    """

    def __init__(self, data: Path, new_id: str) -> None:
        self._path = data / "bridge.lock"
        self._new_id = new_id
        self._descriptor: int | None = None
        self.bridge_id = ""

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise Unusable("BRIDGE_LOCKED", f"Another bridge runs in {self._path.parent}.") from error
        self._descriptor = descriptor
        self.bridge_id = os.read(descriptor, 64).decode("ascii", "replace").strip()
        if len(self.bridge_id) != len(self._new_id):
            self.bridge_id = self._new_id
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{self.bridge_id}\n".encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def bind_seats(data: Path, runtime: Path, environ: Mapping[str, str]) -> tuple[socket.socket, Path]:
    """The socket of the seats, for this user alone.  Whoever holds the lock owns the path."""
    path = Path(environ.get("WAKELINE_SEATS") or data / "seats.sock")
    record = data / "seats"
    record.unlink(missing_ok=True)
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        name = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:16]
        path = _private(runtime / f"wakeline-{os.getuid()}-{name}") / "seats.sock"
        record.write_text(f"{path}\n", encoding="utf-8")
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise Unusable("ADDRESS_UNAVAILABLE", f"Cannot listen on {path}: {error.strerror}.") from error
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener, path


def _private(directory: Path) -> Path:
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if status.st_uid != os.getuid() or directory.is_symlink():
        raise Unusable("ADDRESS_UNAVAILABLE", f"{directory} belongs to somebody else.", "Choose a shorter --data.")
    directory.chmod(0o700)
    return directory
