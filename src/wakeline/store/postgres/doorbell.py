"""Hear from PostgreSQL that a log grew: LISTEN on a connection of its own, proven before it is trusted.

A doorbell only says "look".  It is proven by ringing ourselves from another connection, at the start and every so
often, because a pooler takes LISTEN without complaint and then never delivers anything, and because a connection can
die without a word.  While it is not proven, everybody is told to look once a second: that costs latency, never a row.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable

from wakeline.errors import WakelineError
from wakeline.store.postgres import failure
from wakeline.store.postgres.connection import Backoff, Connection, part

_log = logging.getLogger(__name__)

CHANNEL = "wakeline"
PROOF_SECONDS = 2.0
PROVE_AGAIN_SECONDS = 15.0
RETRY_SECONDS = (0.5, 30.0)
EVERYTHING = 0

Ring = Callable[[int], None]


class DoorbellLine:
    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        notify: Callable[[str], Awaitable[None]],
        ring: Ring,
        *,
        poll_seconds: float,
        dice: Callable[[], float],
    ) -> None:
        self.trouble: str | None = "not tried yet"
        self._connect = connect
        self._notify = notify
        self._ring = ring
        self._poll_seconds = poll_seconds
        self._backoff = Backoff(dice, RETRY_SECONDS)
        self._tasks: list[asyncio.Task[None]] = []
        self._tried = asyncio.Event()
        self._proof = ""
        self._proven = asyncio.Event()
        self._told: dict[int, int] = {}

    async def start(self) -> None:
        """Answers when the first attempt is through, whichever way it went."""
        self._tasks = [
            asyncio.create_task(self._listen_for_ever(), name="wakeline doorbell"),
            asyncio.create_task(self._poll_for_ever(), name="wakeline poll"),
        ]
        await self._tried.wait()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def tell(self, workspace_id: int, last_log_id: int) -> None:
        """Ring for this commit, once: of ours we know before or after its NOTIFY."""
        if self._told.get(workspace_id) != last_log_id:
            self._told[workspace_id] = last_log_id
            self._ring(workspace_id)

    def describe(self) -> str:
        if self.trouble is None:
            return "LISTEN works"
        return f"LISTEN does not work, polling every {self._poll_seconds:g} s: {self.trouble}"

    async def _poll_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds)
            if self.trouble is not None:
                self._ring(EVERYTHING)

    async def _listen_for_ever(self) -> None:
        while True:
            try:
                await self._listen()
            except TimeoutError:
                self._failed("a NOTIFY did not come back; a pooler may stand in between")
            except (*failure.DRIVER, WakelineError) as error:
                self._failed(str(error) or type(error).__name__)
            self._tried.set()
            await asyncio.sleep(self._backoff.failed())

    def _failed(self, why: str) -> None:
        if self.trouble is None:
            _log.warning("LISTEN does not work, polling instead: %s", why)
        self.trouble = why

    async def _listen(self) -> None:
        """Listen until the connection ends, which is always an error."""
        connection = await self._connect()
        lost = asyncio.Event()
        connection.add_termination_listener(lambda *_: lost.set())
        try:
            await connection.add_listener(CHANNEL, self._heard)
            while not lost.is_set():
                await self._prove()
                await _wait(lost, PROVE_AGAIN_SECONDS)
            raise ConnectionError("the listening connection was closed")
        finally:
            await part(connection)

    async def _prove(self) -> None:
        self._proof = secrets.token_hex(8)
        self._proven.clear()
        await self._notify(self._proof)
        async with asyncio.timeout(PROOF_SECONDS):
            await self._proven.wait()
        self._backoff.succeeded()
        if self.trouble is not None:
            self.trouble = None
            self._ring(EVERYTHING)  # for whatever was missed until now
        self._tried.set()

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        head, separator, tail = str(payload).partition(":")
        if not separator:
            if head == self._proof:
                self._proven.set()
        elif head.isdecimal() and tail.isdecimal():
            self.tell(int(head), int(tail))


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Until the event, at most so long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
