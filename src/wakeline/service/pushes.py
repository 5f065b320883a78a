"""Hints for whoever listens: wake events for one principal's connections, and "there is new mail".

A push is never data and never truth.  It goes to the connections that its principal has open on this node, through one
bounded queue each; a connection that does not keep up is closed, and nobody else waits for it.  Streams are the hub's:
they count against its limit, and end when their token expires or is revoked, or when the server stops.

"New mail" is told once for what came together: after the first ring we wait a moment, then ask what is unread after the
position that was told last.  So mail that was read meanwhile, or was for others, rings nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

from wakeline import wire
from wakeline.core.principal import Caller
from wakeline.errors import Unavailable, WakelineError
from wakeline.service.hub import Hub
from wakeline.service.inbox import Inboxes
from wakeline.service.listeners import Stream, Waiter

_log = logging.getLogger(__name__)

COALESCE_SECONDS = 0.05
RETRY_SECONDS = 1.0
Key = tuple[int, str]


class Push:
    """One event on its way to several connections.  `encoded` is filled by the first face that needs it."""

    __slots__ = ("encoded", "event", "kind")

    def __init__(self, kind: Literal["wake", "inbox"], event: Mapping[str, Any]) -> None:
        self.kind = kind
        self.event = event
        self.encoded: bytes | None = None


class _Ring:
    """What the hub rings for one listener: it only notes whose mail to look at."""

    __slots__ = ("_key", "_pushes")

    def __init__(self, pushes: Pushes, key: Key) -> None:
        self._pushes = pushes
        self._key = key

    def set(self) -> None:
        self._pushes.look(self._key)


class Pushes:
    def __init__(self, hub: Hub, inboxes: Inboxes) -> None:
        self._hub = hub
        self._inboxes = inboxes
        self._open: dict[Key, dict[Stream[Push], Waiter[_Ring]]] = {}
        self._told: dict[Key, str] = {}
        self._on_arrival: list[Callable[[Caller], Awaitable[None]]] = []
        self._on_departure: list[Callable[[int, str], None]] = []
        self._rung: set[Key] = set()
        self._ring = asyncio.Event()

    def on_arrival(self, greet: Callable[[Caller], Awaitable[None]]) -> None:
        """Be told of every new listener, once it listens."""
        self._on_arrival.append(greet)

    def on_departure(self, part: Callable[[int, str], None]) -> None:
        """Be told when a principal's last listener has gone."""
        self._on_departure.append(part)

    def is_listening(self, caller: Caller) -> bool:
        return (caller.workspace_id, caller.handle) in self._open

    def push(self, workspace_id: int, handle: str, event: Mapping[str, Any]) -> int:
        """Offer a wake event to the principal's connections; answers how many took it."""
        return self._offer((workspace_id, handle), Push("wake", event))

    def _offer(self, key: Key, item: Push) -> int:
        taken = 0
        for stream in list(self._open.get(key, ())):
            stream.offer(item)
            taken += not stream.closed
        return taken

    @asynccontextmanager
    async def open(self, caller: Caller, on_overflow: Callable[[], None]) -> AsyncIterator[Stream[Push]]:
        """A listener, from now on."""
        key = (caller.workspace_id, caller.handle)
        stream: Stream[Push] = self._hub.open(caller, on_overflow)
        try:
            waiter = await self._hub.expect_mail(caller, _Ring(self, key))
        except BaseException:
            self._hub.leave(stream)
            raise
        self._open.setdefault(key, {})[stream] = waiter
        try:
            if key not in self._told:
                self._told[key] = (await self._inboxes.wait(caller, wire.MailQuery())).position
            for greet in self._on_arrival:
                await greet(caller)
            yield stream
        finally:
            self._leave(key, stream, waiter)

    def _leave(self, key: Key, stream: Stream[Push], waiter: Waiter[_Ring]) -> None:
        self._hub.leave(stream)
        self._hub.stop_expecting_mail(waiter)
        del self._open[key][stream]
        if not self._open[key]:
            del self._open[key]
            self._told.pop(key, None)
            for part in self._on_departure:
                part(*key)

    # -- new mail -----------------------------------------------------------------------------------------------------

    def look(self, key: Key) -> None:
        self._rung.add(key)
        self._ring.set()

    async def run(self) -> None:
        while True:
            await self._ring.wait()
            await asyncio.sleep(COALESCE_SECONDS)
            self._ring.clear()
            rung, self._rung = self._rung, set()
            for key in rung:
                await self._tell(key)

    async def _tell(self, key: Key) -> None:
        listener = next(iter(self._open.get(key, ())), None)
        if listener is None or key not in self._told:
            return
        try:
            found = await self._inboxes.wait(listener.caller, wire.MailQuery(after=self._told[key]))
        except Unavailable as error:
            _log.warning("telling of new mail is postponed: %s", error.message)
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self.look, key)
        except WakelineError as error:  # a restored store: what was told belongs to another history
            self._told[key] = str(error.details.get("position", "0"))
            self._offer(key, Push("inbox", {"unread": error.details.get("unread", 0)}))
        else:
            self._told[key] = found.position
            if found.mail:
                self._offer(key, Push("inbox", {"unread": found.unread, "position": found.position}))


async def received(stream: Stream[Push]) -> AsyncIterator[Push]:
    """What comes through a stream until it is closed; signs of life are not shown."""
    while not stream.closed:
        await stream.wait()
        while stream.queue and not stream.closed:
            item = stream.queue.popleft()
            if item is not None:
                yield item
