"""Say in our words what went wrong with PostgreSQL, and whether a write may have happened all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from wakeline.errors import Internal, InvalidArgument, Unavailable, WakelineError

# Everything that the driver and the network raise; whatever else comes out of a batch is a bug of ours.
DRIVER = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
# The schema repeats our invariants; a decision should never have come to this.
INVARIANT = asyncpg.IntegrityConstraintViolationError
# The rows themselves were refused: that is about one command, not about the server.
ROWS = (INVARIANT, asyncpg.DataError)
# Another transaction came first and nothing was written.
OVERTAKEN = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)

_STANDBY = "Point the setting 'database' at the primary; the server goes on by itself once it takes writes."
_RIGHTS = "Grant the user of the setting 'database' the right to create and write tables."
_UNREACHED = "PostgreSQL cannot be reached"

# By SQLSTATE, else by its class: the code, what happened, and a hint where the catalogue's is about files.
_MEANINGS: dict[str, tuple[str, str, str | None]] = {
    "53100": ("STORE_FULL", "The disk of the PostgreSQL server is full", None),
    "25006": ("STORE_READ_ONLY", "PostgreSQL takes no writes now", _STANDBY),
    "42501": ("STORE_READ_ONLY", "PostgreSQL does not let this user write", _RIGHTS),
    "40001": ("STORE_BUSY", "Another transaction came first", None),
    "40P01": ("STORE_BUSY", "Another transaction came first", None),
    "55P03": ("STORE_BUSY", "Another transaction holds the workspace", None),
    "57014": ("STORE_BUSY", "PostgreSQL took too long", None),
    "XX001": ("STORE_CORRUPT", "The database is damaged", "Restore a backup of the PostgreSQL database."),
    "XX002": ("STORE_CORRUPT", "The database is damaged", "Rebuild its indexes with REINDEX, or restore a backup."),
    "08": ("STORE_UNAVAILABLE", _UNREACHED, None),
    "28": ("STORE_UNAVAILABLE", "PostgreSQL refuses this user", "Check the user and password of 'database'."),
    "3D": ("STORE_UNAVAILABLE", "PostgreSQL has no such database", "Create it, or correct the setting 'database'."),
    "53": ("STORE_UNAVAILABLE", "PostgreSQL is out of resources", None),
    "57": ("STORE_UNAVAILABLE", "PostgreSQL is stopping or starting", None),
    "58": ("STORE_UNAVAILABLE", "PostgreSQL has trouble with its machine", None),
}


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except DRIVER as error:
        raise translate(error) from error


def translate(error: Exception) -> WakelineError:
    """For everything that left no trace: reads, and writes that PostgreSQL has refused."""
    state = sqlstate(error)
    if state is None:
        return Unavailable("STORE_UNAVAILABLE", f"{_UNREACHED}: {_text(error)}; nothing was written.")
    if isinstance(error, asyncpg.DataError):
        return InvalidArgument(
            "INVALID_ARGUMENT",
            f"PostgreSQL cannot take a value of the request: {_text(error)}.",
            "Leave out NUL characters and numbers beyond 64 bits.",
        )
    meaning = _MEANINGS.get(state) or _MEANINGS.get(state[:2])
    if meaning is None:
        return Internal("INTERNAL", f"PostgreSQL refused a statement: {_text(error)}.")
    code, what, hint = meaning
    return Unavailable(code, f"{what}: {_text(error)}; nothing was written.", hint)


@contextmanager
def uncertain() -> Iterator[None]:
    """Around the round trip that commits: if the connection ends in it, only the store knows what happened."""
    try:
        yield
    except DRIVER as error:
        if not is_lost(error):
            raise
        raise Unavailable(
            "STORE_UNAVAILABLE",
            f"The connection broke during the write ({_text(error)}): it may or may not have been applied.",
            outcome="unknown",
        ) from error


def is_lost(error: Exception) -> bool:
    """Has the connection ended, or could it have?"""
    state = sqlstate(error)
    return state is None or state.startswith(("08", "57P"))


def sqlstate(error: Exception) -> str | None:
    """Five letters from the server; None for what the driver or the network says."""
    return error.sqlstate if isinstance(error, asyncpg.PostgresError) else None


def _text(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return text or type(error).__name__
