"""Copy a live database, put a copy back, and check one for damage.  Works on files, with or without a server."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

import apsw

from wakeline.errors import InvalidArgument, Unavailable, Unusable
from wakeline.store.sqlite.connection import connect, transaction, translated
from wakeline.store.sqlite.lock import DataLock
from wakeline.store.sqlite.search import SearchIndex

DATABASE = "wakeline.db"
_PAGES_PER_STEP = 512


def backup(database: Path, target: Path, progress: Callable[[int, int], None]) -> None:
    """A consistent copy of one moment, while others write.  The target appears only when it is whole."""
    if not database.exists():
        raise InvalidArgument("INVALID_ARGUMENT", f"There is no database at {database}.", "Give --data.")
    if target.exists():
        raise InvalidArgument("INVALID_ARGUMENT", f"{target} exists already.", "Choose a new name.")
    partial = target.with_name(target.name + ".partial")
    with translated():
        _discard(partial)
        partial.touch(mode=0o600)  # it holds everybody's mail, whatever the umask says
        source = connect(database, readonly=True)
        copy = apsw.Connection(str(partial))
        # The open read keeps the moment still: without it, every foreign write would start the copy over.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM workspaces").fetchall()
        with copy.backup("main", source, "main") as job:
            while not job.done:
                job.step(_PAGES_PER_STEP)
                progress(job.page_count - job.remaining, job.page_count)
        copy.pragma("journal_mode", "delete")
        copy.close()
        source.close()
        _sync(partial)
        partial.replace(target)


def restore(source: Path, data: Path, *, force: bool) -> str:
    """Put a backup in place under a new epoch.  What was there is kept beside it."""
    if not source.exists():
        raise InvalidArgument("INVALID_ARGUMENT", f"There is no file {source}.", "Name the copy to put in place.")
    problems = check(source)
    if problems:
        raise Unusable("STORE_CORRUPT", f"{source} is damaged: {problems[0]}", "Try an older backup.")
    with translated():
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = data / DATABASE
    with DataLock(data):
        if target.exists() and not force:
            raise InvalidArgument("INVALID_ARGUMENT", f"{target} exists.", "Use --force; the old one stays beside it.")
        incoming = target.with_name(DATABASE + ".incoming")
        with translated():
            _discard(incoming)
            backup(source, incoming, lambda _done, _total: None)
            epoch = _renew_epochs(incoming)
            SearchIndex.discard(data / "search.db")
            if target.exists():
                _keep(target)
            incoming.replace(target)
            _sync(data)
    return epoch


def _renew_epochs(database: Path) -> str:
    epoch = new_epoch()
    connection = connect(database)
    with transaction(connection):
        connection.execute("UPDATE workspaces SET epoch = ?", (epoch,))
    connection.pragma("journal_mode", "delete")
    connection.close()
    return epoch


def _keep(database: Path) -> None:
    """Give the old database a second name.  It stays whole under its first one until the new one takes that.

    Its write-ahead log must be gone by then, because SQLite would apply it to the new one.
    """
    kept = database.with_name(f"{database.name}.before-restore-{secrets.token_hex(4)}")
    _fold_in(database)
    for suffix in ("-wal", "-shm"):  # only a damaged one still has them
        part = database.with_name(database.name + suffix)
        if part.exists():
            part.rename(kept.with_name(kept.name + suffix))
    os.link(database, kept)


def _fold_in(database: Path) -> None:
    """Move what is in the write-ahead log into the database, unless that is too damaged to take it."""
    try:
        connection = connect(database)
        [(busy, _, _)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()
    except (apsw.CorruptError, Unavailable) as error:
        if isinstance(error, Unavailable) and error.code != "STORE_CORRUPT":
            raise
        return
    if busy:
        raise Unavailable("STORE_BUSY", f"Another program reads {database}; nothing was changed.")


def _discard(database: Path) -> None:
    """What a copy that was killed has left.  A stale log beside a new file would be taken for its own."""
    for suffix in ("-journal", "-wal", "-shm", ""):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def check(database: Path) -> list[str]:
    """What is wrong with this file; nothing is the good answer."""
    if not database.exists():
        return [f"{database} does not exist"]
    try:
        connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
        problems = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
        if not problems:
            connection.execute("SELECT count(*) FROM workspaces").fetchall()
        connection.close()
    except apsw.Error as error:
        return [f"{database}: {error}"]
    return problems


def new_epoch() -> str:
    return secrets.token_hex(4)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
