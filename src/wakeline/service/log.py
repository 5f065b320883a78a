"""The log as callers may see it: pages, live streams, search."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from wakeline import wire
from wakeline.core.log import Position, Workspace, parse_position
from wakeline.core.principal import Caller
from wakeline.core.queries import Entry, HostLog, LogAfter, LogVisible, Query, UnreadCount, WorkspaceById
from wakeline.core.store import Search
from wakeline.errors import Gone
from wakeline.service import views
from wakeline.service.context import Context
from wakeline.service.hub import Hub

PAGE = 100
MAX_PHRASES = 16
_phrase = re.compile(r'"([^"]*)"|(\S+)')


class Start(msgspec.Struct, frozen=True):
    """Where a stream begins, checked.  `clamped`: the position lay in the future."""

    epoch: str
    after: int
    last: int  # where the log ended then
    clamped: bool = False


class Logs:
    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._hub = hub

    def check(self, text: str) -> None:
        """A malformed position is refused wherever it stands."""
        parse_position(text)

    async def start(self, caller: Caller, text: str | None) -> Start:
        """Check a position: malformed is refused, too old or of another epoch is gone, future is clamped."""
        position = None if text is None else parse_position(text)
        await self._hub.know(caller.workspace_id)
        [workspace] = await self._context.store.read(WorkspaceById(caller.workspace_id))
        epoch, last = workspace.epoch, workspace.last_log_id
        if position is None:
            return Start(epoch, last, last)
        if position.epoch is None:
            return Start(epoch, workspace.first_log_id - 1, last)
        if position.epoch != epoch:
            raise Gone(
                "EPOCH_CHANGED",
                f"The position {position} belongs to another history.",
                **await self._state(caller, workspace),
            )
        await self._check_kept(caller, workspace, position.log_id)
        return Start(epoch, min(position.log_id, last), last, clamped=position.log_id > last)

    async def _check_kept(self, caller: Caller, workspace: Workspace, after: int) -> None:
        first = workspace.first_log_id
        if after < first - 1:
            raise Gone("POSITION_EXPIRED", f"The log is kept from {first} on.", **await self._state(caller, workspace))

    async def _state(self, caller: Caller, workspace: Workspace) -> dict[str, Any]:
        store = self._context.store
        [unread] = await store.read(UnreadCount(caller.workspace_id, caller.handle, await store.now()))
        return {"unread": unread, "position": str(Position(workspace.epoch, workspace.last_log_id))}

    async def page(self, caller: Caller, query: wire.LogQuery) -> wire.LogPage:
        start = await self.start(caller, query.after)
        rows, reached = await self._visible(caller, start.after, start.last, query.limit)
        now = await self._context.store.now()
        return wire.LogPage(
            events=[views.event(row, start.epoch, now) for row in rows],
            position=str(Position(start.epoch, reached)),
            has_more=reached < start.last,
        )

    async def _visible(self, caller: Caller, after: int, until: int, limit: int) -> tuple[list[Entry], int]:
        """One page, and the position up to which nothing more is visible.

        What was pruned since the page before is gone, and looks just like what the caller may not see: the page is read
        together with where the log begins now.
        """
        [workspace], rows = await self._context.store.read_together(
            WorkspaceById(caller.workspace_id), _page_of(caller, after, until, limit)
        )
        await self._check_kept(caller, workspace, after)
        rows = [row for row in rows if row.log.log_id <= until]
        return rows, (rows[-1].log.log_id if len(rows) == limit else until)

    async def catch_up(self, caller: Caller, after: int) -> AsyncIterator[list[Entry]]:
        """Pages from `after` to where the hub is.  When it ends, `hub.join` must follow without an await.

        Raises `Gone` when the log was pruned beyond the pages that were read.
        """
        while after < (until := self._hub.tail(caller.workspace_id)):
            rows, after = await self._visible(caller, after, until, PAGE)
            yield rows

    async def search(self, caller: Caller, query: wire.SearchQuery) -> wire.Found:
        store = self._context.store
        [workspace] = await store.read(WorkspaceById(caller.workspace_id))
        wanted = Search(
            workspace_id=caller.workspace_id,
            phrases=parse_phrases(query.q),
            reader=caller.handle,
            everything=caller.reads_everything,
            thread_id=query.thread_id,
            sender=query.sender,
            limit=query.limit,
        )
        found = await store.search(wanted) if wanted.phrases else []
        now = await store.now()
        return wire.Found(messages=[views.message(row, None, now) for row in found], indexed_to=workspace.last_log_id)


def _page_of(caller: Caller, after: int, until: int, limit: int) -> Query[Entry]:
    if caller.host is not None:
        return HostLog(caller.workspace_id, after, until, caller.host, limit)
    if caller.reads_everything:
        return LogAfter(caller.workspace_id, after, limit)
    return LogVisible(caller.workspace_id, after, until, caller.handle, limit)


def parse_phrases(text: str) -> tuple[str, ...]:
    """Words that must all occur; "words in quotes" must occur together.  What has no letter or digit is no word."""
    phrases = tuple(
        phrase for match in _phrase.finditer(text) if any(map(str.isalnum, phrase := match[1] or match[2] or ""))
    )
    return phrases[:MAX_PHRASES]
