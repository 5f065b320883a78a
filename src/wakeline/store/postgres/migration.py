"""Bring a PostgreSQL database to our schema, one node at a time, and give a restored one a new epoch."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wakeline.errors import Unusable
from wakeline.store import migrate
from wakeline.store.postgres import failure
from wakeline.store.postgres.connection import Connection, Server, part, require_fit, transaction

# Any number will do that nothing else in the database locks by.
_LOCK = 7_799_000_001
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


async def prepare(server: Server) -> None:
    """A sound database of our own schema.  Nodes that start together wait for one another."""
    async with _locked(server, "migration") as connection:
        await _apply(connection)


@asynccontextmanager
async def _locked(server: Server, purpose: str) -> AsyncIterator[Connection]:
    """One transaction that no other of these, on any node, comes into."""
    with failure.translated():
        connection = await server.connect(purpose, patient=True)
        try:
            await require_fit(connection)
            # A lock of the transaction, not of the session: behind a pooler the session is not ours.
            async with transaction(connection, f"SELECT pg_advisory_xact_lock({_LOCK})"):
                yield connection
        finally:
            await part(connection)


async def _apply(connection: Connection) -> None:
    await connection.execute("SET LOCAL client_min_messages = warning")
    await connection.execute(migrate.LEDGER)
    rows = await connection.fetch("SELECT number, name, checksum FROM migrations ORDER BY number")
    for migration in migrate.pending(migrate.migrations("postgres"), [migrate.Applied(*row) for row in rows]):
        await connection.execute(migration.sql)
        await connection.execute(
            f"INSERT INTO migrations VALUES ($1, $2, $3, {_NOW})",  # noqa: S608 - a constant
            migration.number,
            migration.name,
            migration.checksum,
        )


async def renew_epoch(url: str) -> str:
    """Call this once after restoring a copy: positions from before are then refused instead of misread."""
    epoch = secrets.token_hex(4)
    async with _locked(Server.parse(url), "restore") as connection:
        await _require_alone(connection)
        await _apply(connection)
        await connection.execute("UPDATE workspaces SET epoch = $1, version = version + 1", epoch)
    return epoch


async def _require_alone(connection: Connection) -> None:
    """A node that runs has read its epoch when it started, and would go on telling it.

    Behind a pooler connections carry no name of ours, so such nodes are not seen.
    """
    others = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name LIKE 'wakeline %' AND pid <> pg_backend_pid()"
    )
    if others:
        raise Unusable(
            "STORE_LOCKED",
            f"Wakeline nodes use this database ({others} connections); nothing was changed.",
            "Stop every node, then run it again.",
        )
