"""Open PostgreSQL connections the one right way, and lend a few of them out again and again.

A connection that ended is replaced when it is next needed, so nothing has to be restarted after PostgreSQL was.  A
server that did not answer is left alone for a moment, longer each time; who asks in that moment is refused at once
instead of waiting for a timeout of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import asyncpg
import msgspec

from wakeline.errors import Unavailable
from wakeline.store import statements
from wakeline.store.postgres import failure

A = TypeVar("A")

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

CONNECT_SECONDS = 3.0
COMMAND_SECONDS = 30.0
ROOM_SECONDS = 5.0

_BACKOFF_SECONDS = (0.1, 2.0)
_OLDEST = 130_000

# What every statement of ours relies on, whatever the server's defaults are.
_SETTINGS = {
    "default_transaction_isolation": "read committed",
    "jit": "off",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "10s",
}
# A batch looks everything up by key.  Its plans are made once, perhaps while the tables are still empty, and must not
# turn into scans when they have grown: so there is one plan, for any parameters, by index.
_BY_KEY = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
}


class Server(msgspec.Struct, frozen=True):
    """Where the database is.  `pooled`: a pooler stands in front, so a session is nothing to rely on."""

    url: str
    pooled: bool = False

    @classmethod
    def parse(cls, url: str) -> Server:
        """`?pgbouncer=true` is a word of ours; the rest of the URL is the driver's."""
        address, _, query = url.partition("?")
        options = [option for option in query.split("&") if option]
        kept = [option for option in options if option.partition("=")[0] != "pgbouncer"]
        pooled = "pgbouncer=true" in options
        return cls("?".join([address, *(["&".join(kept)] if kept else [])]), pooled)

    async def connect(self, purpose: str, *, by_key: bool = False, patient: bool = False) -> Connection:
        """Open one connection.  `patient`: without limits of time, for migrations."""
        settings = {"application_name": f"wakeline {purpose}", **_SETTINGS, **(_BY_KEY if by_key else {})}
        if patient:
            del settings["lock_timeout"]
        return await asyncpg.connect(
            self.url,
            timeout=CONNECT_SECONDS,
            command_timeout=None if patient else COMMAND_SECONDS,
            statement_cache_size=0 if self.pooled else 200,
            max_cacheable_statement_size=0,
            server_settings=None if self.pooled else settings,
        )


async def require_fit(connection: Connection) -> None:
    """Is this a PostgreSQL that we can run on?"""
    encoding = connection.get_settings().server_encoding
    if encoding != "UTF8":
        raise Unavailable(
            "STORE_UNAVAILABLE",
            f"The database's encoding is {encoding}; Wakeline needs UTF8.",
            "Create it with: createdb --encoding=UTF8 --template=template0.",
        )
    version = int(await connection.fetchval("SHOW server_version_num"))
    if version < _OLDEST:
        raise Unavailable(
            "STORE_UNAVAILABLE",
            f"PostgreSQL {version // 10_000} is too old; Wakeline needs {_OLDEST // 10_000} or later.",
            "Upgrade the PostgreSQL server.",
        )


class Backoff:
    """How long to leave a server alone that did not answer: doubling, bounded, jittered."""

    def __init__(self, dice: Callable[[], float], bounds: tuple[float, float] = _BACKOFF_SECONDS) -> None:
        self._dice = dice
        self._shortest, self._longest = bounds
        self._failures = 0

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self) -> float:
        """One more failure; answers how long to wait."""
        seconds = min(self._longest, self._shortest * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return seconds * (0.5 + self._dice() / 2)


class Links:
    """At most `limit` connections of one kind, each lent to one borrower at a time."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], limit: int, dice: Callable[[], float]) -> None:
        self._connect = connect
        self._room = asyncio.Semaphore(limit)
        self._idle: list[Connection] = []
        self._backoff = Backoff(dice)
        self._closed_until = 0.0
        self._trouble: Exception | None = None

    async def run(self, work: Callable[[Connection], Awaitable[A]]) -> A:
        """Do this on a connection, and once more on a fresh one if the first turns out to have ended meanwhile.

        So `work` may run twice.  It must not let the loss of a connection through once it has committed anything:
        `failure.uncertain` turns that into an answer.
        """
        try:
            async with self._lend() as connection:
                return await work(connection)
        except failure.DRIVER as error:
            if isinstance(error, TimeoutError) or not failure.is_lost(error):
                raise
        self._forget()  # the others are of the same age
        async with self._lend() as connection:
            return await work(connection)

    @asynccontextmanager
    async def _lend(self) -> AsyncIterator[Connection]:
        await self._enter()
        try:
            connection = await self._take()
            try:
                yield connection
            except BaseException as error:
                if connection.is_in_transaction() or not _is_between(error):
                    connection.terminate()  # whatever it is in the middle of, nobody else shall meet it
                raise
            finally:
                if not connection.is_closed():
                    self._idle.append(connection)
        finally:
            self._room.release()

    async def _enter(self) -> None:
        if not self._room.locked():
            await self._room.acquire()  # does not wait
            return
        try:
            async with asyncio.timeout(ROOM_SECONDS):
                await self._room.acquire()
        except TimeoutError as error:
            raise Unavailable("STORE_BUSY", "All connections to PostgreSQL are busy; nothing was written.") from error

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        now = asyncio.get_running_loop().time
        if self._trouble is not None and now() < self._closed_until:
            raise failure.translate(self._trouble)
        try:
            connection = await self._connect()
        except failure.DRIVER as error:
            self._trouble = error
            self._closed_until = now() + self._backoff.failed()
            raise failure.translate(error) from error
        self._backoff.succeeded()
        self._trouble = None
        return connection

    def _forget(self) -> None:
        while self._idle:
            self._idle.pop().terminate()

    async def close(self) -> None:
        while self._idle:
            await part(self._idle.pop())


def _is_between(error: BaseException) -> bool:
    """Does this error leave the connection between two statements, ready for the next?"""
    broken = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    return isinstance(error, Exception) and not isinstance(error, broken)


@asynccontextmanager
async def transaction(connection: Connection, opening: str = "") -> AsyncIterator[None]:
    """READ COMMITTED, whatever the default is; `opening` is sent along with the BEGIN."""
    await connection.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED; {opening}")
    try:
        yield
    except BaseException as error:
        if _is_between(error):
            await connection.execute("ROLLBACK")
        raise
    with failure.uncertain():
        await connection.execute("COMMIT")


async def run(connection: Connection, name: str, given: Mapping[str, Any]) -> list[asyncpg.Record]:
    statement = statements.load("postgres", name)
    return await connection.fetch(statement.text, *(given[key] for key in statement.parameters))


async def part(connection: Connection) -> None:
    """Say goodbye if the other side still listens."""
    try:
        await connection.close(timeout=1.0)
    except failure.DRIVER:
        connection.terminate()
