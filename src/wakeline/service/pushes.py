"""Hints for whoever listens: wake events for one principal's connections, and "there is new mail".

A push is never data and never truth.  It goes to the connections that its principal has open on this node, through one
bounded queue each; a connection that does not keep up is closed, and nobody else waits for it.  Streams are the hub's:
they count against its limit, and end when their token expires or is revoked, or when the server stops.

"New mail" is told once for what came together: after the first ring we wait a moment, then ask what is unread after the
position that was told last.  So mail that was read meanwhile, or was for others, rings nobody.

Not every connection can be told of every wake: its client may not understand the event, may not want any, or may have
no stream open on which it could come.  Each has an ear that knows.  A wake is offered, and counted, only where it is
taken, so that nothing is recorded as delivered of which nobody was told.  An ear that opens later is greeted like a new
connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

import msgspec

from wakeline import wire
from wakeline.core.event import EVENTS, told_of
from wakeline.core.principal import Caller
from wakeline.errors import Unavailable, WakelineError
from wakeline.service.hub import Hub
from wakeline.service.inbox import Inboxes
from wakeline.service.listeners import Stream, Waiter

_log = logging.getLogger(__name__)

COALESCE_SECONDS = 0.05
RETRY_SECONDS = 1.0
Key = tuple[int, str]
Takes = Callable[[str], bool]  # an event type

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_NOTHING: frozenset[str] = frozenset()


class Push:
    """One event on its way to several connections.  `encoded` is filled by the first face that needs it."""

    __slots__ = ("encoded", "event", "kind")

    def __init__(self, kind: Literal["wake", "inbox"], event: Mapping[str, Any]) -> None:
        self.kind = kind
        self.event = event
        self.encoded: bytes | None = None


class Ear:
    """Of which wakes a listener can be told at this moment.  Whoever lets it hear more says so: `changed`."""

    __slots__ = ("_tell", "takes")

    def __init__(self, takes: Takes) -> None:
        self.takes = takes
        self._tell: Callable[[], None] | None = None

    def heard(self) -> frozenset[str]:
        return frozenset(filter(self.takes, EVENTS))

    def on_change(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def changed(self) -> None:
        if self._tell is not None:
            self._tell()


class _Listener(NamedTuple):
    waiter: Waiter[_Ring]
    ear: Ear


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
        self._open: dict[Key, dict[Stream[Push], _Listener]] = {}
        self._told: dict[Key, str] = {}
        self._on_arrival: list[Callable[[Caller], Awaitable[None]]] = []
        self._rung: set[Key] = set()
        self._ring = asyncio.Event()
        self._arrived: asyncio.Queue[tuple[Stream[Push], Ear]] = asyncio.Queue()

    def on_arrival(self, greet: Callable[[Caller], Awaitable[None]]) -> None:
        """Be told of every listener that can be told of wakes, once it can."""
        self._on_arrival.append(greet)

    def heard(self, workspace_id: int, handle: str) -> frozenset[str]:
        """The event types of which a connection of this principal's would be told now."""
        listeners = self._open.get((workspace_id, handle))
        if listeners is None:
            return _NOTHING
        return _NOTHING.union(*(one.ear.heard() for stream, one in listeners.items() if not stream.closed))

    def push(self, workspace_id: int, handle: str, body: bytes) -> int:
        """Offer a wake event to the principal's connections; answers how many took it."""
        key = (workspace_id, handle)
        if key not in self._open:
            return 0
        push = Push("wake", _decode(body))
        return self._offer(key, push, told_of(push.event))

    def _offer(self, key: Key, item: Push, event_types: tuple[str, ...] | None = None) -> int:
        """Without event types it is for everybody.  A digest is for who takes any of its parts."""
        taken = 0
        for stream, listener in list(self._open.get(key, {}).items()):
            if event_types is None or any(map(listener.ear.takes, event_types)):
                stream.offer(item)
                taken += not stream.closed
        return taken

    @asynccontextmanager
    async def open(self, caller: Caller, on_overflow: Callable[[], None], ear: Ear) -> AsyncIterator[Stream[Push]]:
        """A listener, from now on."""
        key = (caller.workspace_id, caller.handle)
        stream: Stream[Push] = self._hub.open(caller, on_overflow)
        try:
            waiter = await self._hub.expect_mail(caller, _Ring(self, key))
        except BaseException:
            self._hub.leave(stream)
            raise
        self._open.setdefault(key, {})[stream] = _Listener(waiter, ear)
        ear.on_change(lambda: self._arrived.put_nowait((stream, ear)))
        try:
            if key not in self._told:
                self._told[key] = (await self._inboxes.wait(caller, wire.MailQuery())).position
            await self._greet(caller, ear)
            yield stream
        finally:
            self._leave(key, stream, waiter)

    async def _greet(self, caller: Caller, ear: Ear) -> None:
        for greet in self._on_arrival if ear.heard() else ():
            await greet(caller)

    def _leave(self, key: Key, stream: Stream[Push], waiter: Waiter[_Ring]) -> None:
        self._hub.leave(stream)
        self._hub.stop_expecting_mail(waiter)
        del self._open[key][stream]
        if not self._open[key]:
            del self._open[key]
            self._told.pop(key, None)

    # -- new mail -----------------------------------------------------------------------------------------------------

    def look(self, key: Key) -> None:
        self._rung.add(key)
        self._ring.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tell_of_mail())
            group.create_task(self._greet_again())

    async def _greet_again(self) -> None:
        """Those whose ears have opened."""
        while True:
            stream, ear = await self._arrived.get()
            try:
                if not stream.closed:
                    await self._greet(stream.caller, ear)
            except WakelineError as error:  # what waits for it is looked at again in a while all the same
                _log.warning("a listener is not greeted: %s", error.message)

    async def _tell_of_mail(self) -> None:
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
