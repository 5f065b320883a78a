"""Numbered migrations: the same numbers and names for both databases, applied once each, in order, under a lock.

A checksum of each applied file is kept.  A database that knows a migration we do not is newer than this program and is
refused; so is one whose applied migration differs from ours.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from importlib import resources

import msgspec

from wakeline.errors import Unusable

LEDGER = """
CREATE TABLE IF NOT EXISTS migrations (
  number INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)
"""

_file_name = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


class Migration(msgspec.Struct, frozen=True):
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


class Applied(msgspec.Struct, frozen=True):
    number: int
    name: str
    checksum: str


def migrations(engine: str) -> list[Migration]:
    found = []
    for file in (resources.files("wakeline.store") / "migrations" / engine).iterdir():
        match = _file_name.fullmatch(file.name)
        if match is not None:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda migration: migration.number)


def pending(ours: Sequence[Migration], applied: Sequence[Applied]) -> list[Migration]:
    """What is still to do, or a refusal if this database is not one of ours."""
    known = {migration.number: migration for migration in ours}
    for row in applied:
        mine = known.get(row.number)
        if mine is None:
            raise Unusable(
                "STORE_NEWER",
                f"The database has migration {row.number:04d} ({row.name}); this program knows up to {max(known):04d}.",
            )
        if mine.checksum != row.checksum:
            raise Unusable("STORE_CHANGED", f"Migration {row.number:04d} ({row.name}) was applied with another text.")
    done = {row.number for row in applied}
    return [migration for migration in ours if migration.number not in done]
