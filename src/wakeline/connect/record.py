"""What a connection wrote, kept in the data directory so that all of it can be taken back.

A record is stored before the first file is touched, with every file as it was.  Whatever happens after that, the next
`connect` or `disconnect` can tell for each file whether it is still the old one, already the new one, or changed since.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from wakeline.connect import files
from wakeline.connect.change import Edit

DIRECTORY = "connections"


class Kept(msgspec.Struct, frozen=True):
    """One file: how it was, what was put into it, and how it looked then."""

    path: str
    before: bytes | None  # None: there was no such file
    after: str  # its digest
    edits: list[Edit]
    made: tuple[str, ...] = ()  # directories that were made for it


class Connection(msgspec.Struct, frozen=True):
    harness: str
    place: str  # whose configuration: a harness's own directory, or a project
    handle: str
    token_file: str
    jti: str | None = None  # of a token that was made for it
    files: list[Kept] = []
    complete: bool = False
    note: str | None = None  # of a pane: the session that it became

    @property
    def key(self) -> str:
        return name_of(self.harness, Path(self.place))


def name_of(harness: str, place: Path) -> str:
    """One connection for each harness and place."""
    return f"{harness}-{hashlib.sha256(os.fsencode(place)).hexdigest()[:12]}"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Records:
    def __init__(self, data: Path) -> None:
        self.data = data
        self.directory = data / DIRECTORY

    def load(self, key: str) -> Connection | None:
        content = files.read(self.directory / f"{key}.json")
        return None if content is None else msgspec.json.decode(content, type=Connection)

    def all(self) -> list[Connection]:
        found = (self.load(path.stem) for path in sorted(self.directory.glob("*.json")))
        return [connection for connection in found if connection is not None]

    def save(self, connection: Connection) -> None:
        content = msgspec.json.format(msgspec.json.encode(connection), indent=2)
        files.replace(self.directory / f"{connection.key}.json", content, files.PRIVATE)

    def forget(self, key: str) -> None:
        files.remove(self.directory / f"{key}.json")

    def token_file(self, key: str) -> Path:
        return self.directory / f"{key}.token"

    def set_aside(self, key: str, path: Path, content: bytes) -> Path:
        """A file of ours that somebody changed is not thrown away with the rest."""
        place = self.directory / "set-aside" / key / path.name
        files.replace(place, content, files.PRIVATE)
        return place

    @contextlib.contextmanager
    def locked(self, *, quietly: bool = False) -> Iterator[None]:
        """One at a time: two that edit the same file would each undo the other.  `quietly` is for who only looks."""
        if quietly:
            yield
            return
        for directory in (self.data, self.directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
