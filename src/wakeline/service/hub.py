"""The node's one reader of the log: it follows every workspace and hands each row to the streams that may see it.

A doorbell only says "look"; what is there is read from the store, in order, so a lost or doubled ring changes nothing.
A batch of this node's own is offered by the store as it was written.  If it begins right after our position and nothing
is being read, it is what reading would find, and it is handed out without reading; if not, the offer is only a ring.
A stream joins at the hub's position in one step, without an await in between, so it neither misses nor repeats a row.
Each stream has a bounded queue: one that does not keep up is closed and resumes from its last position, and nobody else
waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wakeline.core.appended import Appended
from wakeline.core.log import CONTROL, HOST_STREAM, PRINCIPAL_STREAM, THREAD_STREAM, LogEntry, Position, Workspace
from wakeline.core.principal import Caller
from wakeline.core.queries import AllWorkspaces, ControlAfter, Entry, LogAfter, LogMembers, WorkspaceById
from wakeline.core.store import Store
from wakeline.errors import RateLimited, Unavailable
from wakeline.service.listeners import Published, R, Stream, Waiter

_log = logging.getLogger(__name__)

PAGE = 100
RETRY_SECONDS = 1.0


class _Place:
    """One workspace as this node follows it."""

    __slots__ = ("by_handle", "by_host", "epoch", "everything", "mail", "tail", "workspace_id")

    def __init__(self, workspace: Workspace) -> None:
        self.workspace_id = workspace.workspace_id
        self.epoch = workspace.epoch
        self.tail = workspace.last_log_id
        self.everything: set[Stream[Published]] = set()
        self.by_handle: dict[str, set[Stream[Published]]] = {}
        self.by_host: dict[str, set[Stream[Published]]] = {}  # of bridges
        self.mail: dict[str, set[Waiter[Any]]] = {}


class Hub:
    def __init__(self, store: Store, *, max_streams: int = 10_000, buffer: int = 256) -> None:
        self._store = store
        self._max_streams = max_streams
        self._buffer = buffer
        self._places: dict[int, _Place] = {}
        self._pending: set[int] = set()
        self._following = False
        self._ring = asyncio.Event()
        self._waiters: dict[str, set[Waiter[asyncio.Event]]] = {}
        self._control: list[Callable[[LogEntry], None]] = []
        self._lost: list[Callable[[int], None]] = []
        self.streams: set[Stream[Any]] = set()
        self.closed = False
        store.on_commit(self.look, self.hear, self.is_heard)

    def look(self, workspace_id: int) -> None:
        self._pending.add(workspace_id)
        self._ring.set()

    def hear(self, appended: Appended) -> bool:
        """Hand out a batch of our own if it is what comes next; whether it was."""
        place = self._places.get(appended.workspace_id)
        # What was rung for or is being read may lie before it, also where the positions alone do not show it.
        if place is None or self._pending or self._following or place.tail != appended.first - 1:
            return False
        if appended.entries is not None:
            self._hand_out(place, appended.entries, appended.audience)
        elif self._is_heard(place):  # nobody listened yet when it was written
            return False
        else:
            self._ring_hosts(place, appended.control)
        place.tail = appended.last
        self._tell_control(appended.control)
        return True

    def is_heard(self) -> bool:
        """Does anybody listen, in any workspace?"""
        return bool(self._waiters) or any(self._is_heard(place) for place in self._places.values())

    def on_control(self, hear: Callable[[LogEntry], None]) -> None:
        """Hear of rows that change who may do what, wherever they were written."""
        self._control.append(hear)

    def on_lost(self, begin_again: Callable[[int], None]) -> None:
        """Hear that rows of a workspace were pruned before we could tell of them."""
        self._lost.append(begin_again)

    # -- following ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        for workspace in await self._store.read(AllWorkspaces()):
            self._places.setdefault(workspace.workspace_id, _Place(workspace))

    async def run(self) -> None:
        while True:
            await self._ring.wait()
            # Cleared before reading: what arrives meanwhile rings again.
            self._ring.clear()
            pending, self._pending = self._pending, set()
            self._following = True
            try:
                await self._look_at(pending)
            except Unavailable as error:
                _log.warning("following the log is postponed: %s", error.message)
                self._pending |= pending
                await asyncio.sleep(RETRY_SECONDS)
                self._ring.set()
            finally:
                self._following = False

    async def _look_at(self, pending: set[int]) -> None:
        if 0 in pending or not pending <= self._places.keys():
            await self.start()
            pending |= self._places.keys()
        for workspace_id in pending - {0}:
            await self._follow(workspace_id)

    async def _follow(self, workspace_id: int) -> None:
        place = self._places[workspace_id]
        while True:
            if self._is_heard(place):
                page = await self._store.read(LogAfter(workspace_id, place.tail, PAGE))
                if not page:
                    return
                await self._publish(workspace_id, place, page)
            else:
                found = await self._store.read(ControlAfter(workspace_id, place.tail, PAGE))
                workspace, rows = found[0].workspace, [one.log for one in found if one.log is not None]
                self._skip_to(place, workspace.first_log_id)
                self._ring_hosts(place, rows)
                self._tell_control(rows)
                if self._is_heard(place):
                    continue  # somebody joined while we read, at the old tail: all rows after it must be read
                place.tail = rows[-1].log_id if len(rows) == PAGE else max(place.tail, workspace.last_log_id)
                if len(rows) < PAGE:
                    return

    def _skip_to(self, place: _Place, first: int) -> None:
        """Rows that were pruned before we came to them are told to nobody.

        So nobody listens on as if nothing had happened: a listener comes again with its position, and hears that it is
        gone if it is; and since a lost row may have ended a right, no right is remembered.
        """
        if first - 1 <= place.tail:
            return
        _log.warning("the log was pruned beyond what was followed: whoever listens begins again")
        place.tail = first - 1
        for streams in (place.everything, *place.by_handle.values(), *place.by_host.values()):
            for stream in streams:
                stream.close()
        self.dismiss(lambda caller: caller.workspace_id == place.workspace_id)
        for begin_again in self._lost:
            begin_again(place.workspace_id)

    def _is_heard(self, place: _Place) -> bool:
        """By somebody for whom any row may be: a bridge hears of its own rows as control rows."""
        return bool(place.everything or place.by_handle or place.mail or self._waiters)

    async def _publish(self, workspace_id: int, place: _Place, page: list[Entry]) -> None:
        # The log has no gaps: what does not begin right after our position was pruned.
        self._skip_to(place, page[0].log.log_id)
        last = page[-1].log.log_id
        audience: dict[int, list[str]] = {}
        for log_id, handle in await self._store.read(LogMembers(workspace_id, place.tail, last)):
            audience.setdefault(log_id, []).append(handle)
        # Pruned meanwhile?  The oldest rows go first: if the first one of a thread has readers, nothing is missing.
        oldest = next((entry.log.log_id for entry in page if entry.log.stream.startswith(THREAD_STREAM)), None)
        if oldest is not None and oldest not in audience:
            [workspace] = await self._store.read(WorkspaceById(workspace_id))
            self._skip_to(place, min(workspace.first_log_id, last + 1))
        self._hand_out(place, page, audience)
        place.tail = last
        self._tell_control(entry.log for entry in page if entry.log.kind in CONTROL)

    def _hand_out(self, place: _Place, page: Sequence[Entry], audience: Mapping[int, Iterable[str]]) -> None:
        # A row that changes who may do what can end a stream before anything of its page is written to it.
        at_once = not any(entry.log.kind in CONTROL for entry in page)
        for entry in page:
            published = Published(entry, place.epoch)
            for stream in self._receivers(place, entry.log, audience.get(entry.log.log_id, ())):
                if entry.log.log_id > stream.after:
                    stream.offer(published, at_once=at_once)
            replied = entry.message.in_reply_to if entry.message is not None else None
            for waiter in self._waiters.get(replied, ()) if replied is not None else ():
                waiter.ring.set()
            if entry.message is not None and place.mail:
                self._ring_for_mail(place, audience.get(entry.log.log_id, ()))

    def _ring_hosts(self, place: _Place, rows: Iterable[LogEntry]) -> None:
        """A bridge only has to look, so a row that it is told of twice does no harm."""
        for row in rows if place.by_host else ():
            for stream in place.by_host.get(row.stream.removeprefix(HOST_STREAM), ()):
                if row.log_id > stream.after:
                    stream.offer(Published(Entry(row, None), place.epoch))

    def _ring_for_mail(self, place: _Place, handles: Iterable[str]) -> None:
        for handle in handles:
            for waiter in place.mail.get(handle, ()):
                waiter.ring.set()

    def _receivers(self, place: _Place, row: LogEntry, members: Iterable[str]) -> Iterable[Stream[Published]]:
        yield from place.everything
        if row.stream.startswith(THREAD_STREAM):
            for handle in members:
                yield from place.by_handle.get(handle, ())
        elif row.stream.startswith(PRINCIPAL_STREAM):
            yield from place.by_handle.get(row.stream.removeprefix(PRINCIPAL_STREAM), ())
        elif row.stream.startswith(HOST_STREAM):
            yield from place.by_host.get(row.stream.removeprefix(HOST_STREAM), ())
        else:
            for streams in place.by_handle.values():
                yield from streams

    def _tell_control(self, rows: Iterable[LogEntry]) -> None:
        for row in rows:
            for hear in self._control:
                hear(row)

    # -- listening ----------------------------------------------------------------------------------------------------

    async def know(self, workspace_id: int) -> None:
        """Another node may have made this workspace since we looked."""
        if workspace_id not in self._places:
            await self.start()

    def tail(self, workspace_id: int) -> int:
        return self._places[workspace_id].tail

    def position(self, workspace_id: int) -> Position:
        """Up to where rows have been handed out: whoever waits from now on is rung for all that come after it."""
        place = self._places[workspace_id]
        return Position(place.epoch, place.tail)

    def open(self, caller: Caller, on_overflow: Callable[[], None]) -> Stream[Any]:
        """A stream that counts, and that losing its right closes, from now on; rows come once it has joined."""
        if self.closed:
            raise Unavailable("SHUTTING_DOWN", "The server is stopping.")
        if len(self.streams) >= self._max_streams:
            raise RateLimited("TOO_MANY_STREAMS", f"This server serves at most {self._max_streams} streams.")
        stream: Stream[Any] = Stream(caller, self._buffer, on_overflow)
        self.streams.add(stream)
        return stream

    async def attach(self, caller: Caller) -> Stream[Published]:
        """A listener of our own, which does not count.  It hears what comes from now on, until it leaves."""
        await self.know(caller.workspace_id)
        stream: Stream[Published] = Stream(caller, self._buffer, lambda: None)
        self.join(stream, self.tail(caller.workspace_id))
        return stream

    def join(self, stream: Stream[Published], after: int) -> None:
        """Every row after `after` and after `tail`.  Read `tail` and join without an await in between."""
        stream.after = after
        caller, place = stream.caller, self._places[stream.caller.workspace_id]
        if caller.host is not None:
            place.by_host.setdefault(caller.host, set()).add(stream)
        elif caller.reads_everything:
            place.everything.add(stream)
        else:
            place.by_handle.setdefault(caller.handle, set()).add(stream)

    def leave(self, stream: Stream[Any]) -> None:
        self.streams.discard(stream)
        place = self._places.get(stream.caller.workspace_id)
        if place is None:
            return
        place.everything.discard(stream)
        for streams, name in ((place.by_handle, stream.caller.handle), (place.by_host, stream.caller.host or "")):
            mine = streams.get(name, set())
            mine.discard(stream)
            if not mine:
                streams.pop(name, None)

    def keep_alive(self, now: int) -> None:
        """Touch every stream, and close those whose token has run out."""
        for stream in list(self.streams):
            expires_at = stream.caller.expires_at
            if expires_at is not None and expires_at <= now:
                stream.close()
            else:
                stream.offer(None)

    def dismiss(self, matches: Callable[[Caller], bool]) -> None:
        """End what these callers listen to and wait for."""
        patient = [self._waiters, *(place.mail for place in self._places.values())]
        waiting = [waiter for waiters in patient for some in waiters.values() for waiter in some]
        everybody: list[Stream[Any] | Waiter[Any]] = [*self.streams, *waiting]
        for one in everybody:
            if matches(one.caller):
                one.close()

    def close(self) -> None:
        """The server stops: nobody waits for what comes later."""
        self.closed = True
        self.dismiss(lambda _caller: True)

    def expect_reply(self, caller: Caller, message_id: str) -> Waiter[asyncio.Event]:
        waiter = Waiter(caller, asyncio.Event())
        self._waiters.setdefault(message_id, set()).add(waiter)
        return waiter

    def stop_expecting(self, message_id: str, waiter: Waiter[asyncio.Event]) -> None:
        waiters = self._waiters.get(message_id, set())
        waiters.discard(waiter)
        if not waiters:
            self._waiters.pop(message_id, None)

    def expect_mail(self, caller: Caller, ring: R) -> Waiter[R]:
        """Ring when a message enters a thread of the caller's.  Whether it is mail for the caller, a query decides.

        First `know` the caller's workspace.
        """
        waiter = Waiter(caller, ring)
        self._places[caller.workspace_id].mail.setdefault(caller.handle, set()).add(waiter)
        return waiter

    def stop_expecting_mail(self, waiter: Waiter[Any]) -> None:
        mail = self._places[waiter.caller.workspace_id].mail
        waiters = mail.get(waiter.caller.handle, set())
        waiters.discard(waiter)
        if not waiters:
            mail.pop(waiter.caller.handle, None)
