"""Threads: open, look, read, acknowledge, summarise, and change members and status."""

from __future__ import annotations

import msgspec

from wakeline import wire
from wakeline.core import budget, summary
from wakeline.core.principal import Caller
from wakeline.core.queries import (
    Delivered,
    MembersOf,
    NewestMail,
    SeenThread,
    ThreadFor,
    ThreadGlimpses,
    ThreadList,
    ThreadListAll,
    ThreadPage,
    UnreadCount,
)
from wakeline.core.summary_queries import ThreadDecisions, ThreadQuestions, ThreadVoices
from wakeline.core.thread import Member, Status
from wakeline.errors import NotFound
from wakeline.flow.ack import AckThread
from wakeline.flow.convene import AddMembers, ChangeStatus, CreateThread, RemoveMembers
from wakeline.service import views
from wakeline.service.context import Context, check_claims, digest
from wakeline.service.messages import mark_seen

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
            digest(request),
            self._context.rails.direct_messages,
        )
        thread_id = await self._context.store.submit(command)
        return await self.get(caller, thread_id)

    async def _visible(self, caller: Caller, thread_id: str) -> SeenThread:
        """The thread as the caller may know it: whole, or as far as they had something to do with it."""
        found = await self._context.store.read(ThreadFor(caller.workspace_id, thread_id, caller.handle))
        if found and (found[0].is_member or caller.reads_everything):
            return msgspec.structs.replace(found[0], glimpsed_seq=None)
        if not found or found[0].glimpsed_seq is None:
            raise NotFound("THREAD_NOT_FOUND", f"There is no thread {thread_id} that {caller.handle} can see.")
        seen, thread = found[0], found[0].thread
        at = seen.glimpsed_at or thread.created_at
        end = msgspec.structs.replace(thread, last_seq=seen.glimpsed_seq, updated_at=at)
        return msgspec.structs.replace(seen, thread=end)

    async def _members(self, seen: SeenThread) -> list[Member] | None:
        """Who is in it, and how far they have read, is for who is in it."""
        if seen.glimpsed_seq is not None:
            return None
        return await self._context.store.read(MembersOf(seen.thread.thread_id))

    async def _page(self, caller: Caller, seen: SeenThread, since: int, limit: int) -> list[Delivered]:
        store, thread_id = self._context.store, seen.thread.thread_id
        if seen.glimpsed_seq is not None:
            return await store.read(ThreadGlimpses(thread_id, since, caller.handle, limit))
        return await store.read(ThreadPage(thread_id, since, caller.handle, limit))

    async def get(self, caller: Caller, thread_id: str) -> wire.ThreadView:
        seen = await self._visible(caller, thread_id)
        return views.thread(seen.thread, await self._members(seen))

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
        seen = await self._visible(caller, thread_id)
        page = await self._page(caller, seen, query.since_seq, query.limit + 1)
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
        seen = await self._visible(caller, thread_id)
        members = await self._members(seen)
        store = self._context.store
        now = await store.now()
        reading = thread_id, caller.handle, seen.glimpsed_seq is None
        voices, questions, decisions = await store.read_together(
            ThreadVoices(*reading),
            ThreadQuestions(*reading, now, summary.MOST),
            ThreadDecisions(*reading, now, 2 * summary.MOST),  # the query takes a few that are none
        )
        # Who is not in it counts what they can see.
        heard = sum(voice.messages for voice in voices)
        thread = seen.thread if members is not None else msgspec.structs.replace(seen.thread, last_seq=heard)
        return summary.summarise(
            views.thread(thread),
            [views.member(one) for one in members or []],
            voices,
            [views.message(row, None, now) for row in reversed(questions)],
            [views.message(row, None, now) for row in reversed(decisions)],
        )

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
