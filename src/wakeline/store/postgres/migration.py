"""Bring a PostgreSQL database to our schema, one node at a time, and give a restored one a new epoch."""

from __future__ import annotations

import secrets

from wakeline.store import migrate
from wakeline.store.postgres import failure
from wakeline.store.postgres.connection import Connection, Server, part, require_fit, transaction

# Any number will do that nothing else in the database locks by.
_LOCK = 7_799_000_001
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


async def prepare(server: Server) -> None:
    """A sound database of our own schema.  Nodes that start together wait for one another."""
    with failure.translated():
        connection = await server.connect("migration", patient=True)
        try:
            await require_fit(connection)
            # A lock of the transaction, not of the session: behind a pooler the session is not ours.
            async with transaction(connection, f"SELECT pg_advisory_xact_lock({_LOCK})"):
                await _apply(connection)
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
    server = Server.parse(url)
    epoch = secrets.token_hex(4)
    await prepare(server)
    with failure.translated():
        connection = await server.connect("restore")
        try:
            await connection.execute("UPDATE workspaces SET epoch = $1, version = version + 1", epoch)
        finally:
            await part(connection)
    return epoch
