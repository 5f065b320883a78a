"""Fill a database with a long history, quickly: real rows in bulk, as the store would have written them.

Every thread has one poster, two readers and a hundred messages.  The readers have read everything but the newest mail
of the first threads, and have seen that too, so that reading it again writes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec

from bench.servers import text
from wakeline.core.ids import ulid
from wakeline.core.log import THREAD_STREAM, LogEntry
from wakeline.core.message import SCHEMA_VERSION, Box, Message, Receipt
from wakeline.core.thread import Member, Thread
from wakeline.runtime import clock
from wakeline.store import statements
from wakeline.store.sqlite.connection import connect

PER_THREAD = 100
UNREAD = 10  # of the newest messages in each of the first hundred threads
_AT_ONCE = 256  # rows per transaction, as in a commit of 64 posts: pages then lie as a server would have laid them
_BODIES = 997
_astuple = msgspec.structs.astuple


class Filled(msgspec.Struct, frozen=True):
    """The threads that were made, each with the places of its poster and its readers among those who were given."""

    threads: list[str]
    posters: list[int]
    readers: list[tuple[int, int]]


class History:
    def __init__(self, workspace_id: int, first_log_id: int, posters: list[str], readers: list[str]) -> None:
        self._workspace_id = workspace_id
        self._first_log_id = first_log_id
        self._posters = posters
        self._readers = readers
        self._dice = random.Random(1)
        self._now = clock.now()

    def plan(self, messages: int) -> Filled:
        count = messages // PER_THREAD
        threads = [self._id(self._now) for _ in range(count)]
        size = len(self._readers)
        pairs = [(number % size, (number + size // 2) % size) for number in range(count)]
        return Filled(threads, [number % len(self._posters) for number in range(count)], pairs)

    def rows(self, filled: Filled) -> Iterator[tuple[str, msgspec.Struct]]:
        """By table, in the order in which the messages were posted: a round over all threads at a time."""
        for number, thread_id in enumerate(filled.threads):
            yield from self._thread(filled, number, thread_id)
        log_id = self._first_log_id - 1
        for seq in range(1, PER_THREAD + 1):
            for number, thread_id in enumerate(filled.threads):
                log_id += 1
                yield from self._message(filled, number, thread_id, seq, log_id)

    def _id(self, instant: int) -> str:
        return ulid(instant // 1000, self._dice.getrandbits(80))

    def _people(self, filled: Filled, number: int) -> tuple[str, list[str]]:
        readers = [self._readers[place] for place in filled.readers[number]]
        return self._posters[filled.posters[number]], readers

    def _thread(self, filled: Filled, number: int, thread_id: str) -> Iterator[tuple[str, msgspec.Struct]]:
        poster, readers = self._people(filled, number)
        instant, title = self._now, f"thread {number}"
        yield (
            "threads",
            Thread(
                thread_id=thread_id,
                workspace_id=self._workspace_id,
                type="conversation",
                status="active",
                title=title,
                audience_key=None,
                created_by=poster,
                coordinator=None,
                escalation_owner=None,
                last_seq=PER_THREAD,
                created_at=instant,
                updated_at=instant,
            ),
        )
        for handle in (poster, *readers):
            yield "members", Member(thread_id, handle, self._workspace_id, instant, 1)

    def _message(
        self, filled: Filled, number: int, thread_id: str, seq: int, log_id: int
    ) -> Iterator[tuple[str, msgspec.Struct]]:
        poster, readers = self._people(filled, number)
        instant, message_id = self._now, self._id(self._now)
        yield "log", _log(self._workspace_id, log_id, thread_id, seq, poster, message_id, instant)
        yield (
            "messages",
            Message(
                message_id=message_id,
                workspace_id=self._workspace_id,
                thread_id=thread_id,
                seq=seq,
                log_id=log_id,
                sender=poster,
                session_id=None,
                kind="chat",
                subject=None,
                body=text(str(log_id % _BODIES)),
                recipients=msgspec.json.encode(readers).decode(),
                priority="normal",
                wake_policy="immediate",
                tags="[]",
                in_reply_to=None,
                idempotency_key=None,
                expires_at=None,
                supersedes=None,
                metadata=None,
                schema_version=SCHEMA_VERSION,
                created_at=instant,
            ),
        )
        unread = number < PER_THREAD and seq > PER_THREAD - UNREAD
        box, read_at = (Box.UNREAD, None) if unread else (Box.READ, instant)
        for handle in readers:
            yield (
                "receipts",
                Receipt(handle, self._workspace_id, log_id, thread_id, seq, 1, None, int(box), instant, read_at),
            )


def _log(
    workspace_id: int, log_id: int, thread_id: str, seq: int, poster: str, message_id: str, instant: int
) -> LogEntry:
    stream = THREAD_STREAM + thread_id
    return LogEntry(workspace_id, log_id, "message.posted", stream, seq, poster, message_id, None, instant)


def fill(database: Path, messages: int, posters: list[str], readers: list[str]) -> Filled:
    """Into a database that no server has open."""
    connection = connect(database)
    connection.pragma("synchronous", "OFF")  # only for filling: the server sets its own
    [(workspace_id, last_log_id)] = connection.execute("SELECT workspace_id, last_log_id FROM workspaces")
    history = History(workspace_id, last_log_id + 1, posters, readers)
    filled = history.plan(messages)
    _insert(connection, history.rows(filled))
    tip = last_log_id + len(filled.threads) * PER_THREAD
    connection.execute(statements.load("sqlite", "close_batch").text, (tip, 1, workspace_id))
    connection.pragma("wal_checkpoint", "TRUNCATE")
    connection.close()
    return filled


def _insert(connection: apsw.Connection, rows: Iterator[tuple[str, msgspec.Struct]]) -> None:
    waiting: dict[str, list[tuple[object, ...]]] = {}
    for number, (table, row) in enumerate(rows, 1):
        waiting.setdefault(table, []).append(_astuple(row))
        if number % _AT_ONCE == 0:
            _flush(connection, waiting)
    _flush(connection, waiting)


def _flush(connection: apsw.Connection, waiting: dict[str, list[tuple[object, ...]]]) -> None:
    with connection:
        for table, rows in waiting.items():
            connection.executemany(statements.load("sqlite", f"put_{table}").text, rows)
    waiting.clear()
