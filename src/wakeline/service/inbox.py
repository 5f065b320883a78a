"""The inbox: a principal's mail, within a budget, and what the principal did with it."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timedelta

from wakeline import wire
from wakeline.core import budget, policy
from wakeline.core.instant import plus, to_datetime
from wakeline.core.log import Position, Workspace, parse_position
from wakeline.core.message import Box
from wakeline.core.principal import Caller, Kind
from wakeline.core.queries import (
    BlockList,
    Delivered,
    GrantList,
    InboxPage,
    PrincipalFor,
    UnreadAfter,
    UnreadCount,
    WorkspaceById,
)
from wakeline.errors import Forbidden, Gone, InvalidArgument, NotFound
from wakeline.flow.ack import AckMessages, ArchiveMessages
from wakeline.service import views
from wakeline.service.context import Context, check_claims
from wakeline.service.hub import Hub
from wakeline.service.messages import mark_seen

_BOXES = {
    "unread": (Box.UNREAD, Box.UNREAD),
    "archived": (Box.ARCHIVED, Box.ARCHIVED),
    "all": (Box.UNREAD, Box.LAPSED),
}
SHOWN = 20
LONGEST_MS = 10**12  # within what a timedelta and a database hold
_cursor = re.compile(r"([0-3])\.([0-2])\.([0-9]{1,18})")


class Inboxes:
    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._hub = hub

    async def wait(self, caller: Caller, query: wire.MailQuery) -> wire.Mail:
        """Unread mail after a position, as soon as there is some; without a position, any unread mail counts."""
        found = await self._mail(caller, query.after)
        if found.mail or query.wait_seconds <= 0:
            return found
        await self._hub.know(caller.workspace_id)
        waiter = self._hub.expect_mail(caller, asyncio.Event())
        try:
            async with asyncio.timeout(query.wait_seconds):
                while not (waiter.closed or self._hub.closed):
                    found = await self._mail(caller, query.after)
                    if found.mail:
                        return found
                    await waiter.ring.wait()
                    waiter.ring.clear()
            return found
        except TimeoutError:
            return await self._mail(caller, query.after)
        finally:
            self._hub.stop_expecting_mail(waiter)

    async def before(self, milliseconds: int) -> datetime:
        """That long ago."""
        age = timedelta(milliseconds=min(milliseconds, LONGEST_MS))
        return to_datetime(plus(await self._context.store.now(), -age))

    async def _mail(self, caller: Caller, after: str | None) -> wire.Mail:
        store = self._context.store
        position = None if after is None else parse_position(after)
        now = await store.now()
        page, unread, workspaces = await store.read_together(
            UnreadAfter(caller.workspace_id, caller.handle, now, 0 if position is None else position.log_id, SHOWN),
            UnreadCount(caller.workspace_id, caller.handle, now),
            WorkspaceById(caller.workspace_id),
        )
        tip = _tip(workspaces[0])
        if position is not None and position.epoch not in (None, workspaces[0].epoch):
            raise Gone(
                "EPOCH_CHANGED", f"The position {after} belongs to another history.", unread=unread[0], position=tip
            )
        return wire.Mail(unread=unread[0], mail=[views.mail(one.message) for one in page], position=tip)

    async def read(self, caller: Caller, query: wire.InboxQuery) -> wire.Inbox:
        store = self._context.store
        owner = query.of or caller.handle
        if owner != caller.handle:
            await self._require_owner(caller, owner)
            await self._require_grant(caller, owner)
        now = await store.now()
        first, last = _BOXES[query.state]
        page, unread, workspace = await store.read_together(
            InboxPage(caller.workspace_id, owner, now, int(first), int(last), *_after(query.after), query.limit + 1),
            UnreadCount(caller.workspace_id, owner, now),
            WorkspaceById(caller.workspace_id),
        )
        shown = [views.message(one.message, one.receipt, now) for one in page[: query.limit]]
        kept = budget.fit(shown, query.max_tokens)
        if owner == caller.handle:  # looking into another's inbox leaves no trace there
            await mark_seen(self._context, caller, page[: len(kept)])
        has_more = len(kept) < len(page)
        return wire.Inbox(
            messages=kept,
            unread=unread[0],
            has_more=has_more,
            next=_next(page[len(kept) - 1]) if has_more else None,
            position=_tip(workspace[0]),
        )

    async def _require_owner(self, caller: Caller, owner: str) -> None:
        """Somebody who is not there has no inbox, not an empty one.  Everybody may know who is there."""
        found = await self._context.store.read(PrincipalFor(caller.workspace_id, owner))
        if not found or found[0].kind == Kind.SYSTEM:
            raise NotFound("AGENT_NOT_FOUND", f"There is no {owner} in this workspace.", handle=owner)

    async def _require_grant(self, caller: Caller, owner: str) -> None:
        if caller.is_human:
            return
        grants, blocks = await self._context.store.read_together(
            GrantList(caller.workspace_id, caller.handle), BlockList(caller.workspace_id, owner)
        )
        if any(row.blocked == caller.handle for row in blocks):
            raise Forbidden("BLOCKED", f"{owner} has blocked {caller.handle}.", rule="block")
        if not any(
            (row.scope, row.grantee, row.owner) == (policy.CAN_READ_INBOX_OF, caller.handle, owner) for row in grants
        ):
            raise Forbidden(
                "GRANT_MISSING",
                f"{caller.handle} may not read the inbox of {owner}.",
                f"{owner} or the human can grant it: 'wakeline grant add CAN_READ_INBOX_OF {caller.handle} {owner}'.",
                rule=policy.CAN_READ_INBOX_OF,
            )

    async def unread(self, caller: Caller) -> int:
        store = self._context.store
        [count] = await store.read(UnreadCount(caller.workspace_id, caller.handle, await store.now()))
        return count

    async def ack(self, caller: Caller, request: wire.MessageIds) -> wire.Acked:
        check_claims(caller, request)
        acked = await self._context.store.submit(AckMessages(caller, tuple(request.message_ids)))
        return wire.Acked(acked=acked, unread=await self.unread(caller))

    async def archive(self, caller: Caller, request: wire.MessageIds) -> wire.Archived:
        check_claims(caller, request)
        archived = await self._context.store.submit(ArchiveMessages(caller, tuple(request.message_ids)))
        return wire.Archived(archived=archived, unread=await self.unread(caller))


def _after(cursor: str | None) -> tuple[int, int, int]:
    if cursor is None:
        return -1, 0, 0
    match = _cursor.fullmatch(cursor)
    if match is None:
        raise InvalidArgument("INVALID_ARGUMENT", "'after' is not a page of this inbox.", "Send back 'next' unchanged.")
    return int(match[1]), int(match[2]), int(match[3])


def _tip(workspace: Workspace) -> str:
    return str(Position(workspace.epoch, workspace.last_log_id))


def _next(last: Delivered) -> str:
    receipt = last.receipt
    assert receipt is not None  # noqa: S101 - an inbox page is read from receipts
    return f"{receipt.box}.{receipt.rank}.{receipt.log_id}"
