"""Threads: open, look, read, acknowledge, summarise, and change members and status."""

from __future__ import annotations

from wakeline import wire
from wakeline.core import budget, summary
from wakeline.core.principal import Caller
from wakeline.core.queries import MembersOf, NewestMail, ThreadFor, ThreadList, ThreadListAll, ThreadPage, UnreadCount
from wakeline.core.thread import Status, Thread
from wakeline.errors import NotFound
from wakeline.flow.ack import AckThread
from wakeline.flow.convene import AddMembers, ChangeStatus, CreateThread, RemoveMembers
from wakeline.flow.once import payload_hash
from wakeline.service import views
from wakeline.service.context import Context, check_claims
from wakeline.service.messages import mark_seen

SUMMARISED = 500
_LAST = "~"  # sorts after every id


class Threads:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def create(self, caller: Caller, request: wire.CreateThread) -> wire.ThreadView:
        check_claims(caller, request)
        command = CreateThread(
            caller,
            self._context.new_id(),
            request.title,
            request.type,
            tuple(request.members),
            request.coordinator,
            request.idempotency_key,
            payload_hash(request),
            self._context.rails.direct_messages,
        )
        thread_id = await self._context.store.submit(command)
        return await self.get(caller, thread_id)

    async def _visible(self, caller: Caller, thread_id: str) -> Thread:
        found = await self._context.store.read(ThreadFor(caller.workspace_id, thread_id, caller.handle))
        if not found or not (found[0].is_member or caller.reads_everything):
            raise NotFound("THREAD_NOT_FOUND", f"There is no thread {thread_id} that {caller.handle} can see.")
        return found[0].thread

    async def get(self, caller: Caller, thread_id: str) -> wire.ThreadView:
        thread = await self._visible(caller, thread_id)
        return views.thread(thread, await self._context.store.read(MembersOf(thread_id)))

    async def list(self, caller: Caller, query: wire.ThreadsQuery) -> wire.Threads:
        kind = ThreadListAll if caller.reads_everything else ThreadList
        rows = await self._context.store.read(
            kind(
                caller.workspace_id,
                caller.handle,
                query.status or "",
                query.type or "",
                query.after or _LAST,
                query.limit + 1,
            )
        )
        page = rows[: query.limit]
        has_more = len(rows) > query.limit
        return wire.Threads(
            threads=[views.thread(row) for row in page],
            has_more=has_more,
            next=page[-1].thread_id if has_more else None,
        )

    async def read(self, caller: Caller, thread_id: str, query: wire.ReadQuery) -> wire.ThreadMessages:
        store = self._context.store
        await self._visible(caller, thread_id)
        page = await store.read(ThreadPage(thread_id, query.since_seq, caller.handle, query.limit + 1))
        now = await store.now()
        shown = [views.message(one.message, one.receipt, now) for one in page[: query.limit]]
        kept = budget.fit(shown, query.max_tokens)
        await mark_seen(self._context, caller, page[: len(kept)])
        next_seq = kept[-1].seq if kept else query.since_seq
        return wire.ThreadMessages(messages=kept, next_seq=next_seq, has_more=len(kept) < len(page))

    async def ack(self, caller: Caller, thread_id: str, request: wire.AckThread) -> wire.ThreadAcked:
        check_claims(caller, request)
        store = self._context.store
        newest = await store.read(NewestMail(thread_id, request.last_read_seq, caller.handle))
        seq = await store.submit(AckThread(caller, thread_id, request.last_read_seq, newest[0] if newest else None))
        [unread] = await store.read(UnreadCount(caller.workspace_id, caller.handle, await store.now()))
        return wire.ThreadAcked(last_read_seq=seq, unread=unread)

    async def summarise(self, caller: Caller, thread_id: str) -> wire.ThreadSummary:
        store = self._context.store
        thread = await self._visible(caller, thread_id)
        since = max(0, thread.last_seq - SUMMARISED)
        page = await store.read(ThreadPage(thread_id, since, caller.handle, SUMMARISED))
        members = await store.read(MembersOf(thread_id))
        now = await store.now()
        shown = [views.message(one.message, None, now) for one in page]
        return summary.summarise(views.thread(thread), [views.member(one) for one in members], shown)

    async def add_members(self, caller: Caller, thread_id: str, request: wire.ChangeMembers) -> wire.ThreadView:
        check_claims(caller, request)
        members = tuple(dict.fromkeys(request.members))
        policy = self._context.rails.direct_messages
        command = AddMembers(caller, thread_id, self._context.new_id(), members, policy)
        await self._context.store.submit(command)
        return await self.get(caller, thread_id)

    async def remove_members(self, caller: Caller, thread_id: str, request: wire.ChangeMembers) -> wire.ThreadView:
        check_claims(caller, request)
        store = self._context.store
        command = RemoveMembers(caller, thread_id, self._context.new_id(), tuple(dict.fromkeys(request.members)))
        await store.submit(command)
        # Who has just left may not look again, except at what leaving made of it.
        [found], members = await store.read_together(
            ThreadFor(caller.workspace_id, thread_id, caller.handle), MembersOf(thread_id)
        )
        return views.thread(found.thread, members)

    async def change_status(self, caller: Caller, thread_id: str, request: wire.ChangeStatus) -> wire.ThreadView:
        check_claims(caller, request)
        command = ChangeStatus(
            caller,
            thread_id,
            self._context.new_id(),
            Status(request.status),
            request.reason,
            request.escalation_owner,
            request.override,
            self._context.rails,
        )
        await self._context.store.submit(command)
        return await self.get(caller, thread_id)
