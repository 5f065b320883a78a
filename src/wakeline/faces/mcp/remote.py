"""The backend of a process that is not the server: every call goes over a socket, as one caller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec

from wakeline.calls import Call
from wakeline.client import Client, backoff
from wakeline.errors import RateLimited, Unavailable, WakelineError
from wakeline.service.pushes import Push

_log = logging.getLogger(__name__)


class Remote:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, call: Call) -> Any:
        return msgspec.json.decode(await self._client.send(call))

    @asynccontextmanager
    async def pushes(self, on_overflow: Callable[[], None]) -> AsyncIterator[AsyncIterator[Push]]:
        async with aclosing(self._follow()) as pushes:
            yield pushes

    async def _follow(self) -> AsyncGenerator[Push, None]:
        """Hints for as long as the credentials allow.  A lost server is looked for again."""
        pauses = backoff()
        while True:
            try:
                async with aclosing(self._client.wakes()) as wakes:
                    async for kind, event in wakes:
                        pauses = backoff()
                        yield Push("wake" if kind == "wake" else "inbox", event)
            except (Unavailable, RateLimited) as error:
                _log.info("following wakes is postponed: %s", error.message)
            except WakelineError as error:
                _log.warning("there will be no hints: %s", error.message)
                return
            await asyncio.sleep(next(pauses))
