"""Open SQLite connections the one right way, and say in our words what went wrong with them."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from wakeline.errors import Internal, Unavailable, Unusable, WakelineError
from wakeline.store import migrate

BUSY_MILLISECONDS = 5_000
# The most that SQLite maps.  A page beyond it is read by a call and a copy: a quarter more for a page of a thread.
MAPPED_BYTES = (1 << 31) - 65_536
CHECKPOINT_PAGES = 16_000
# Of its cache a writer needs what one large batch changes.  After most commits SQLite looks through all of it for pages
# behind the end of the file, which with 64 MB was a twentieth of a post's cost and more.
READERS_KIB, WRITERS_KIB = 65_536, 8_192
_QUICK_CHECK_BYTES = 64 * 1024 * 1024
_LOG_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_UNWRITTEN = bytes(4)  # made, but its first write never reached the disk


def connect(path: Path, *, readonly: bool = False) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with translated():
        connection = apsw.Connection(str(path), flags=flags | apsw.SQLITE_OPEN_URI, statementcachesize=200)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        # Else a statement is compiled anew whenever a value is bound that could have changed its plan, which took
        # three quarters of the time of loading facts.  Ours are written for one plan.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        if not readonly:
            if connection.readonly("main"):  # SQLite opens it all the same, and even begins "writing"
                raise Unavailable("STORE_READ_ONLY", f"{path} cannot be written.")
            connection.pragma("journal_mode", "wal")
            # An answered post survives power loss.  With group commit this costs nothing over NORMAL.
            connection.pragma("synchronous", "FULL")
            # Hot pages are written back once per checkpoint: fewer of them, and fewer commits that wait for one.
            connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        connection.pragma("temp_store", "MEMORY")
        connection.pragma("cache_size", -(READERS_KIB if readonly else WRITERS_KIB))
        connection.pragma("mmap_size", MAPPED_BYTES)
    return connection


def prepare(path: Path, now: int) -> apsw.Connection:
    """The writer's connection, on a sound database of our own schema."""
    with translated():
        _check_log(path.with_name(f"{path.name}-wal"))
        connection = connect(path)
        if path.stat().st_size < _QUICK_CHECK_BYTES:
            problems = [row[0] for row in connection.execute("PRAGMA quick_check(3)") if row[0] != "ok"]
            if problems:
                raise Unusable("STORE_CORRUPT", f"{path} is damaged: {problems[0]}")
        connection.pragma("temp_store", "FILE")  # what a migration sorts may be larger than memory
        apply_migrations(connection, now)
        connection.pragma("temp_store", "MEMORY")
    return connection


def _check_log(path: Path) -> None:
    """SQLite takes a write-ahead log with a damaged header for an empty one; what was answered would be gone."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as log:
        if log.read(len(_UNWRITTEN)) not in (*_LOG_MAGIC, _UNWRITTEN, b""):
            raise Unusable("STORE_CORRUPT", f"{path} is damaged: it does not begin as a write-ahead log does.")


def apply_migrations(connection: apsw.Connection, now: int) -> None:
    with transaction(connection):
        connection.execute(migrate.LEDGER)
        applied = [migrate.Applied(*row) for row in connection.execute("SELECT number, name, checksum FROM migrations")]
        for migration in migrate.pending(migrate.migrations("sqlite"), applied):
            connection.execute(migration.sql)
            connection.execute(
                "INSERT INTO migrations VALUES (?, ?, ?, ?)",
                (migration.number, migration.name, migration.checksum, now),
            )


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    with begun(connection):
        yield
        connection.execute("COMMIT")


@contextmanager
def begun(connection: apsw.Connection) -> Iterator[None]:
    """A transaction that somebody else will commit, unless something goes wrong in it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:  # a full disk makes SQLite roll back by itself
        connection.execute("ROLLBACK")


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except (apsw.Error, OSError) as error:
        raise translate(error) from error


def translate(error: apsw.Error | OSError) -> WakelineError:
    text = str(error)
    if getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_SHMSIZE:
        error = apsw.FullError(text)  # the log has room left, and its index has none
    match error:
        case apsw.FullError() | OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return Unavailable("STORE_FULL", "The disk that holds the database is full; nothing was written.")
        case apsw.BusyError() | apsw.LockedError():
            return Unavailable("STORE_BUSY", "Another program holds the database; nothing was written.")
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            return Unavailable("STORE_READ_ONLY", f"The database cannot be opened for writing: {text}.")
        case OSError(errno=errno.EACCES | errno.EPERM | errno.EROFS):
            path = error.filename or "The data directory"
            return Unavailable("STORE_READ_ONLY", f"{path} cannot be written: {error.strerror}.")
        case apsw.CorruptError() | apsw.NotADBError():
            return Unusable("STORE_CORRUPT", f"The database file is damaged: {text}.")
        case apsw.IOError() | apsw.NoMemError() | OSError():
            return Unavailable("STORE_UNAVAILABLE", f"The database cannot be reached: {text}.")
        case _:
            return Internal("INTERNAL", f"The database refused a write: {text}.")
