"""The backend of a process that is not the server: every call goes over a socket, as one caller.

The server counts what it pushes, so it is told what we can pass on: again, on a new connection, when that changes.  It
tells us of mail in any case: what comes while a connection is exchanged for another would be told on neither.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import msgspec

from wakeline.calls import Call
from wakeline.client import Client, backoff
from wakeline.errors import RateLimited, Unavailable, WakelineError
from wakeline.service.pushes import Ear, Push

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Remote:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, call: Call) -> Any:
        return msgspec.json.decode(await self._client.send(call))

    @asynccontextmanager
    async def pushes(self, on_overflow: Callable[[], None], ear: Ear) -> AsyncIterator[AsyncIterator[Push]]:
        async with aclosing(self._follow(ear)) as pushes:
            yield pushes

    async def _follow(self, ear: Ear) -> AsyncGenerator[Push, None]:
        """Hints for as long as the credentials allow.  A lost server is looked for again."""
        pauses = backoff()
        changed = asyncio.Event()
        heard = ear.heard()
        ear.on_change(lambda: changed.set() if ear.heard() != heard else None)
        while True:
            changed.clear()
            heard = ear.heard()
            try:
                wakes = self._client.wakes(events=sorted(heard))
                async with aclosing(wakes), aclosing(_until(changed, wakes)) as told:
                    async for kind, event in told:
                        pauses = backoff()
                        yield Push("wake" if kind == "wake" else "inbox", event)
            except (Unavailable, RateLimited) as error:
                _log.info("following wakes is postponed: %s", error.message)
            except WakelineError as error:
                _log.warning("there will be no hints: %s", error.message)
                return
            if not changed.is_set():
                await asyncio.sleep(next(pauses))


async def _until(stop: asyncio.Event, items: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """What comes before the event."""
    stopping = asyncio.ensure_future(stop.wait())
    coming: asyncio.Future[T] | None = None
    try:
        while True:
            coming = asyncio.ensure_future(anext(items))
            await asyncio.wait([coming, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                return
            try:
                item = coming.result()
            except StopAsyncIteration:
                return
            yield item
    finally:
        stopping.cancel()
        if coming is not None and coming.cancel():
            await asyncio.wait([coming])
