"""Full-text search beside the store: a file of its own, filled by following the log.

The index is derived data.  In its own file it never makes a post wait for the write lock, it keeps its own cursor, and
when it is damaged or missing it is built again.  A search first follows the log to its end, so it misses nothing that
was answered before.
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
CREATE TABLE IF NOT EXISTS cursors (
  workspace_id INTEGER PRIMARY KEY, epoch TEXT NOT NULL, last_log_id INTEGER NOT NULL);
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
            connection.pragma("synchronous", "NORMAL")  # lost work is done again from the log
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
        """Index slices until the end of the log or until told to stop; answers how many messages were indexed."""
        return self._mending(lambda: self._follow(keep_going))

    def _follow(self, keep_going: Callable[[], bool]) -> int:
        indexed = 0
        for workspace_id, epoch in list(self._connection.execute("SELECT workspace_id, epoch FROM store.workspaces")):
            while keep_going():
                count, more = self._slice(workspace_id, epoch)
                indexed += count
                if not more:
                    break
        return indexed

    def _slice(self, workspace_id: int, epoch: str) -> tuple[int, bool]:
        execute = self._connection.execute
        with transaction(self._connection):
            cursor = execute(
                "SELECT epoch, last_log_id FROM cursors WHERE workspace_id = ?", (workspace_id,)
            ).fetchall()
            after = cursor[0][1] if cursor and cursor[0][0] == epoch else 0
            rows = execute(statements.load("sqlite", "index_slice").text, (workspace_id, after, SLICE)).fetchall()
            if not rows:
                return 0, False
            words = [(rowid, subject or "", body) for _, rowid, subject, body in rows if rowid is not None]
            self._connection.executemany("DELETE FROM words WHERE rowid = ?", [(row[0],) for row in words])
            self._connection.executemany("INSERT INTO words (rowid, subject, body) VALUES (?, ?, ?)", words)
            execute("INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)", (workspace_id, epoch, rows[-1][0]))
        return len(words), len(rows) == SLICE

    def cursors(self) -> dict[int, int]:
        with self._lock, translated():
            rows: list[Any] = self._connection.execute("SELECT workspace_id, last_log_id FROM cursors").fetchall()
            return dict(rows)

    def search(self, query: Search, keep_going: Callable[[], bool]) -> list[Message]:
        """Follow the log to its end, then search."""

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
