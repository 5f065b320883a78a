"""Full-text search beside the store: a file of its own, filled by following the messages as they were written.

The index is derived data.  In its own file it never makes a post wait for the write lock, it keeps its own cursor, and
when it is damaged or missing it is built again from the messages, which retention of the log does not touch.  A search
first follows to the end, so it misses nothing that was answered before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import apsw

from wakeline.core.message import Message
from wakeline.core.store import Search
from wakeline.errors import Unavailable
from wakeline.store import statements
from wakeline.store.sqlite.connection import connect, transaction, translated

A = TypeVar("A")

SLICE = 256

_SCHEMA = """
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
  subject, body, content='', contentless_delete=1, tokenize='unicode61');
CREATE TABLE IF NOT EXISTS cursor (epoch TEXT NOT NULL, number INTEGER NOT NULL);
"""


class SearchIndex:
    """Used from worker threads only, one at a time."""

    def __init__(self, path: Path, database: Path) -> None:
        self._path = path
        self._database = database
        self._lock = threading.Lock()
        self._connection = self._open()

    def _open(self) -> apsw.Connection:
        try:
            return self._attach()
        except Unavailable as error:
            if error.code != "STORE_CORRUPT":
                raise
        self.discard(self._path)
        return self._attach()

    def _attach(self) -> apsw.Connection:
        connection = connect(self._path)
        with translated():
            connection.pragma("synchronous", "NORMAL")  # lost work is done again
            connection.execute("ATTACH ? AS store", (f"{self._database.absolute().as_uri()}?mode=ro",))
            with transaction(connection):
                connection.execute(_SCHEMA)
        return connection

    def _mending(self, work: Callable[[], A]) -> A:
        """Do it; if the index turns out to be damaged, do it again with a new one."""
        with self._lock:
            try:
                with translated():
                    return work()
            except Unavailable as error:
                if error.code != "STORE_CORRUPT" or self._is_sound():
                    raise
            self._connection.close()
            self.discard(self._path)
            self._connection = self._attach()
            with translated():
                return work()

    def _is_sound(self) -> bool:
        """Then it is the store that is damaged, and nothing here helps."""
        try:
            return self._connection.execute("PRAGMA main.quick_check(1)").fetchall() == [("ok",)]
        except apsw.Error:
            return False

    @staticmethod
    def discard(path: Path) -> None:
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)

    def follow(self, keep_going: Callable[[], bool]) -> int:
        """Index slices until the last message or until told to stop; answers how many messages were indexed."""
        return self._mending(lambda: self._follow(keep_going))

    def _follow(self, keep_going: Callable[[], bool]) -> int:
        indexed = 0
        while keep_going():
            count = self._slice()
            indexed += count
            if count < SLICE:
                break
        return indexed

    def _slice(self) -> int:
        execute = self._connection.execute
        with transaction(self._connection):
            epochs: list[Any] = execute("SELECT epoch FROM store.workspaces ORDER BY workspace_id LIMIT 1").fetchall()
            if not epochs:
                return 0
            known: list[Any] = execute("SELECT number FROM cursor WHERE epoch = ?", epochs[0]).fetchall()
            after = known[0][0] if known else 0
            rows: list[Any] = execute(statements.load("sqlite", "index_slice").text, (after, SLICE)).fetchall()
            if not rows:
                return 0
            self._connection.executemany("DELETE FROM words WHERE rowid = ?", [(row[0],) for row in rows])
            self._connection.executemany("INSERT INTO words (rowid, subject, body) VALUES (?, ?, ?)", rows)
            execute("DELETE FROM cursor")
            execute("INSERT INTO cursor VALUES (?, ?)", (epochs[0][0], rows[-1][0]))
        return len(rows)

    def search(self, query: Search, keep_going: Callable[[], bool]) -> list[Message]:
        """Follow to the end, then search."""

        def work() -> list[Message]:
            self._follow(keep_going)
            return self._search(query)

        return self._mending(work)

    def _search(self, query: Search) -> list[Message]:
        words = " ".join('"' + phrase.replace('"', '""') + '"' for phrase in query.phrases)
        given = {
            "words": words,
            "workspace_id": query.workspace_id,
            "reader": query.reader,
            "everything": int(query.everything),
            "thread_id": query.thread_id or "",
            "sender": query.sender or "",
            "limit": query.limit,
        }
        statement = statements.load("sqlite", "search")
        values = tuple(given[name] for name in statement.parameters)
        rows: list[Any] = self._connection.execute(statement.text, values).fetchall()
        return [Message(*row) for row in rows]

    def close(self) -> None:
        with self._lock:
            self._connection.close()
