"""The floor under the store: the rows that a store wrote, written again by a bare loop of transactions.

Same schema, same indexes, same driver, same pragmas, same batch size; the rows are ready beforehand and nothing is
decided.  What is left is what SQLite and the disk cost.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import apsw
import msgspec

from wakeline.store.sqlite.connection import connect

INSERTED = ("log", "messages", "receipts")
_PUT_THREAD = "UPDATE threads SET last_seq = ?, updated_at = ? WHERE thread_id = ?"
_PUT_BUCKET = "UPDATE buckets SET level = ?, counted_at = ? WHERE workspace_id = ? AND sender = ?"
_CLOSE_BATCH = "UPDATE workspaces SET last_log_id = ?, version = version + 1 WHERE workspace_id = ?"

Rows = list[tuple[Any, ...]]


class Batch(msgspec.Struct, frozen=True):
    inserted: dict[str, Rows]
    threads: Rows
    buckets: Rows
    close: tuple[int, int]


def batches(written: Path, after: int, size: int) -> list[Batch]:
    """What a store wrote after this row of the log, `size` posts at a time."""
    connection = connect(written, readonly=True)
    rows = {table: _by_log_id(connection, table, after) for table in INSERTED}
    log_ids = sorted(rows["messages"])
    made = [_batch(connection, rows, log_ids[at : at + size]) for at in range(0, len(log_ids), size)]
    connection.close()
    return made


def _by_log_id(connection: apsw.Connection, table: str, after: int) -> dict[int, Rows]:
    cursor = connection.execute(f"SELECT log_id, * FROM {table} WHERE log_id > ? ORDER BY log_id", (after,))  # noqa: S608 - our own names
    found: dict[int, Rows] = {}
    for log_id, *row in cursor:
        found.setdefault(log_id, []).append(tuple(row))
    return found


def _batch(connection: apsw.Connection, rows: dict[str, dict[int, Rows]], log_ids: list[int]) -> Batch:
    first, last = log_ids[0], log_ids[-1]
    threads = connection.execute(
        "SELECT max(seq), max(created_at), thread_id FROM messages WHERE log_id BETWEEN ? AND ? GROUP BY thread_id",
        (first, last),
    ).fetchall()
    buckets = connection.execute(
        "SELECT level, counted_at, workspace_id, sender FROM buckets WHERE sender IN "
        "(SELECT sender FROM messages WHERE log_id BETWEEN ? AND ?)",
        (first, last),
    ).fetchall()
    inserted = {table: [row for log_id in log_ids for row in of[log_id]] for table, of in rows.items()}
    return Batch(inserted, threads, buckets, (last, rows["log"][last][0][0]))


def write_again(seed: Path, written: Path, after: int, size: int, pause: float = 0.0) -> list[float]:
    """Into a copy of the seed; how long each batch took, in seconds.  `pause` before each, as when they come alone."""
    prepared = batches(written, after, size)
    copy = written.with_name("raw.db")
    shutil.copyfile(seed, copy)
    connection = connect(copy)
    put = {table: _insert(connection, table) for table in INSERTED}
    took = []
    for batch in prepared:
        if pause:
            time.sleep(pause)
        began = time.perf_counter()
        _write(connection, put, batch)
        took.append(time.perf_counter() - began)
    connection.close()
    return took


def _insert(connection: apsw.Connection, table: str) -> str:
    [(width,)] = connection.execute("SELECT count(*) FROM pragma_table_info(?)", (table,))
    return f"INSERT INTO {table} VALUES ({', '.join('?' * width)})"  # noqa: S608 - our own names


def _write(connection: apsw.Connection, put: dict[str, str], batch: Batch) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for table, statement in put.items():
        connection.executemany(statement, batch.inserted[table])
    connection.executemany(_PUT_THREAD, batch.threads)
    connection.executemany(_PUT_BUCKET, batch.buckets)
    connection.execute(_CLOSE_BATCH, batch.close)
    connection.execute("COMMIT")
