"""Hints for whoever listens: wake events for one principal's connections, and "there is new mail".

A push is never data and never truth.  It goes to the connections that its principal has open on this node, through one
bounded queue each; a connection that does not keep up is closed, and nobody else waits for it.  Streams are the hub's:
they count against its limit, and end when their token expires or is revoked, or when the server stops.

"New mail" is told once for what came together: after the first ring we wait a moment, then ask what is unread after the
position that was told last.  So mail that was read meanwhile, or was for others, rings nobody.

Not every connection can be told of every wake: its client may not understand the event, may not want any, or may have
no stream open on which it could come.  Each has an ear that knows.  A wake is offered, and counted, only where it is
taken, so that nothing is recorded as delivered of which nobody was told.  An ear that opens later is greeted like a new
connection.  Mail is looked at only for those who want to hear of it: most MCP clients never ask, and each look counts
what is unread.  Other processes are told in any case.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal

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
    """Of which wakes a listener can be told at this moment, and whether it wants to be told of mail.  Whoever changes
    that says so: `changed`.
    """

    __slots__ = ("_tell", "takes", "wants_mail")

    def __init__(self, takes: Takes, wants_mail: Callable[[], bool] = lambda: True) -> None:
        self.takes = takes
        self.wants_mail = wants_mail
        self._tell: Callable[[], None] | None = None

    def heard(self) -> frozenset[str]:
        return frozenset(filter(self.takes, EVENTS))

    def on_change(self, tell: Callable[[], None] | None) -> None:
        self._tell = tell

    def changed(self) -> None:
        if self._tell is not None:
            self._tell()


class _Listener:
    __slots__ = ("ear", "mail")

    def __init__(self, ear: Ear) -> None:
        self.ear = ear
        self.mail: Waiter[_Ring] | None = None  # if it wants to hear of mail


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
        event_types = told_of(push.event)  # a digest is for who takes any of its parts
        return self._offer(key, push, lambda listener: any(map(listener.ear.takes, event_types)))

    def _offer(self, key: Key, item: Push, is_for: Callable[[_Listener], bool]) -> int:
        taken = 0
        for stream, listener in list(self._open.get(key, {}).items()):
            if is_for(listener):
                stream.offer(item)
                taken += not stream.closed
        return taken

    @asynccontextmanager
    async def open(self, caller: Caller, on_overflow: Callable[[], None], ear: Ear) -> AsyncIterator[Stream[Push]]:
        """A listener, from now on."""
        await self._hub.know(caller.workspace_id)
        stream: Stream[Push] = self._hub.open(caller, on_overflow)
        listener = _Listener(ear)
        self._open.setdefault((caller.workspace_id, caller.handle), {})[stream] = listener
        self._expect(caller, listener, wanted=ear.wants_mail())
        ear.on_change(partial(self._changed, stream, listener))
        try:
            await self._greet(caller, ear)
            yield stream
        finally:
            self._leave(stream, listener)

    def _changed(self, stream: Stream[Push], listener: _Listener) -> None:
        if stream.closed:
            return
        wanted = listener.ear.wants_mail()
        if wanted != _hears_of_mail(listener):
            self._expect(stream.caller, listener, wanted=wanted)
        else:  # then it may take more wakes than before
            self._arrived.put_nowait((stream, listener.ear))

    async def _greet(self, caller: Caller, ear: Ear) -> None:
        for greet in self._on_arrival if ear.heard() else ():
            await greet(caller)

    def _leave(self, stream: Stream[Push], listener: _Listener) -> None:
        key = (stream.caller.workspace_id, stream.caller.handle)
        self._hub.leave(stream)
        listener.ear.on_change(None)
        self._expect(stream.caller, listener, wanted=False)
        del self._open[key][stream]
        if not self._open[key]:
            del self._open[key]

    # -- new mail -----------------------------------------------------------------------------------------------------

    def _expect(self, caller: Caller, listener: _Listener, *, wanted: bool) -> None:
        """From now on, or no more.  Without an await: what comes after the client's wish was answered is told."""
        key = (caller.workspace_id, caller.handle)
        if wanted and listener.mail is None:
            listener.mail = self._hub.expect_mail(caller, _Ring(self, key))
            self._told.setdefault(key, str(self._hub.position(caller.workspace_id)))
        elif not wanted and listener.mail is not None:
            self._hub.stop_expecting_mail(listener.mail)
            listener.mail = None
            if not any(map(_hears_of_mail, self._open[key].values())):
                del self._told[key]

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
        after = self._told.get(key)
        if after is None:
            return
        caller = next(iter(self._open[key])).caller
        try:
            found = await self._inboxes.wait(caller, wire.MailQuery(after=after))
        except Unavailable as error:
            _log.warning("telling of new mail is postponed: %s", error.message)
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self.look, key)
            return
        except WakelineError as error:  # a restored store: what was told belongs to another history
            position = str(error.details.get("position", "0"))
            hint = {"unread": error.details.get("unread", 0)}
        else:
            position = found.position
            hint = {"unread": found.unread, "position": position} if found.mail else {}
        if self._told.get(key) != after:  # whoever wanted to hear of it no longer does, or has left
            return
        self._told[key] = position
        if hint:
            self._offer(key, Push("inbox", hint), _hears_of_mail)


def _hears_of_mail(listener: _Listener) -> bool:
    return listener.mail is not None


async def received(stream: Stream[Push]) -> AsyncIterator[Push]:
    """What comes through a stream until it is closed; signs of life are not shown."""
    while not stream.closed:
        await stream.wait()
        while stream.queue and not stream.closed:
            item = stream.queue.popleft()
            if item is not None:
                yield item
