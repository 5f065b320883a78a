"""Messages: post, ask, look at one, take one back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
from msgspec import UNSET, UnsetType

from wakeline import wire
from wakeline.core import guardrail
from wakeline.core.instant import SECOND
from wakeline.core.message import SCHEMA_VERSION, Message, parse_audience
from wakeline.core.principal import Caller
from wakeline.core.queries import Delivered, FirstReply, MembersOf, MessageFor, ReceiptsOf
from wakeline.core.records import DeadLetter
from wakeline.errors import Forbidden, NotFound, Unavailable, WakelineError
from wakeline.flow.ack import MarkSeen
from wakeline.flow.ask import EndWait
from wakeline.flow.bury import Bury
from wakeline.flow.post import Accepted, Post, is_undeliverable
from wakeline.flow.retract import Retract
from wakeline.service import views
from wakeline.service.context import Context, check_claims, check_sender, digest, to_instant
from wakeline.service.hub import Hub

_encode = msgspec.json.Encoder().encode


class Messages:
    def __init__(self, context: Context, hub: Hub) -> None:
        self._context = context
        self._hub = hub

    async def post(self, caller: Caller, request: wire.PostMessage) -> wire.Posted:
        try:
            command = self.validate(caller, request)
            if caller.is_human:
                command = await self._with_members(command, request)
            accepted = await self._context.store.submit(command)
        except WakelineError as refusal:
            await self.bury(caller, lambda: request, refusal)
            raise
        posted = views.posted(accepted)
        if request.wait_seconds <= 0:
            return posted
        reply = await self._wait_for_reply(caller, posted.message_id, request.wait_seconds)
        return msgspec.structs.replace(posted, reply=reply)

    def begin(self, caller: Caller, read: Callable[[], wire.PostMessage]) -> Awaitable[Accepted]:
        """Post for an agent who does not wait for a reply.  The request is read when it is sent on, see `Store.submit`.

        What was refused is for the caller to `bury`.
        """
        return self._context.store.submit(lambda: self.validate(caller, read()))

    async def send(self, caller: Caller, request: wire.PostMessage) -> wire.Posted:
        """Post, without keeping what cannot be brought anywhere, and without waiting."""
        command = self.validate(caller, msgspec.structs.replace(request, wait_seconds=0))
        accepted = await self._context.store.submit(await self._with_members(command, request))
        return views.posted(accepted)

    def validate(self, caller: Caller, request: wire.PostMessage) -> Post:
        """Everything that can be refused without asking the store; what is left is the command."""
        check_claims(caller, request)
        check_sender(caller, request.sender, request.from_, request.session_id)
        rails = self._context.rails
        guardrail.check_size(request.subject, request.body, rails)
        if request.kind == "system" and not caller.is_human:
            raise Forbidden("ROLE_FORBIDDEN", "Only the system writes entries of kind 'system'.", rule="kind")
        to = [] if isinstance(request.to, UnsetType) else [request.to] if isinstance(request.to, str) else request.to
        # In their order: so many by their names would take a third of the time of all this.
        message = Message(
            self._context.new_id(),
            caller.workspace_id,
            "",  # the writer sets the thread, and where in it and in the log
            0,
            0,
            caller.handle,
            caller.session_id or request.session_id or None,
            request.kind,
            request.subject,
            request.body,
            "[]",  # recipients
            request.priority,
            "",  # wake_policy
            "[]" if not request.tags else _encode(request.tags).decode(),
            request.in_reply_to,
            request.idempotency_key,
            None if request.expires_at is None else to_instant("expires_at", request.expires_at),
            request.supersedes,
            None if request.metadata is None else guardrail.store_metadata(request.metadata, rails),
            SCHEMA_VERSION,
            0,
            answer_by=None if request.answer_by is None else to_instant("answer_by", request.answer_by),
            awaited=int(request.answer_by is not None),
        )
        return Post(
            caller=caller,
            message=message,
            audience=parse_audience(to, caller.handle) if not isinstance(request.to, UnsetType) else None,
            thread_id=None if isinstance(request.thread_id, UnsetType) else request.thread_id,
            wake_policy=request.wake_policy,
            tags=request.tags,
            digest=_digest(request) if request.idempotency_key is not None else "",
            rails=rails,
            wait=round(request.wait_seconds * SECOND),
        )

    async def _with_members(self, command: Post, request: wire.PostMessage) -> Post:
        """A human whose message has no `to` reaches whoever is in its thread."""
        if command.caller.is_human and request.to is UNSET:
            return msgspec.structs.replace(command, reached=await self._members(command.caller, request))
        return command

    async def _members(self, caller: Caller, request: wire.PostMessage) -> tuple[str, ...]:
        """Who is in the thread that this goes to."""
        store = self._context.store
        thread_id = request.thread_id or ""
        if not thread_id and request.in_reply_to is not None:
            replied = MessageFor(caller.workspace_id, request.in_reply_to, caller.handle, caller.reads_everything)
            found = await store.read(replied)
            thread_id = found[0].message.thread_id if found else ""
        return tuple(member.handle for member in await store.read(MembersOf(thread_id)))

    async def bury(self, caller: Caller, read: Callable[[], wire.PostMessage], refusal: WakelineError) -> None:
        """Keep what cannot be brought anywhere; the refusal then tells where."""
        if not is_undeliverable(refusal):
            return
        rails = self._context.rails
        payload = _encode(read()).decode()
        if len(payload.encode()) > rails.dead_letter_bytes or not rails.dead_letters_per_sender:
            return
        letter = DeadLetter(
            self._context.new_id(), caller.workspace_id, caller.handle, refusal.code, refusal.message, payload, 0
        )
        await self._context.store.submit(Bury(caller, letter, rails))
        await self._context.store.trim_dead_letters(caller.workspace_id, caller.handle, rails.dead_letters_per_sender)
        refusal.details["dead_letter_id"] = letter.dead_letter_id

    async def _wait_for_reply(self, caller: Caller, message_id: str, seconds: float) -> wire.MessageView | None:
        reply: Delivered | None = None
        try:
            reply = await self._reply(caller, message_id, seconds)
        finally:  # also when the caller has hung up
            await self._end_wait(caller, message_id, reply)
        if reply is None:
            return None
        return views.message(reply.message, reply.receipt, await self._context.store.now())

    async def _reply(self, caller: Caller, message_id: str, seconds: float) -> Delivered | None:
        """The first visible answer.  The ring only says "look": the query decides, before and after every wait."""
        waiter = self._hub.expect_reply(caller, message_id)
        try:
            async with asyncio.timeout(seconds):
                while not (waiter.closed or self._hub.closed):
                    reply = await self._first_reply(caller, message_id)
                    if reply is not None:
                        return reply
                    await waiter.ring.wait()
                    waiter.ring.clear()
                return None
        except TimeoutError:
            return await self._first_reply(caller, message_id)
        finally:
            self._hub.stop_expecting(message_id, waiter)

    async def _first_reply(self, caller: Caller, message_id: str) -> Delivered | None:
        asked = FirstReply(caller.workspace_id, message_id, caller.handle, caller.reads_everything)
        found = await self._context.store.read(asked)
        return found[0] if found else None

    async def _end_wait(self, caller: Caller, message_id: str, reply: Delivered | None) -> None:
        """A store that cannot write now keeps nobody from reading: the wait ends by itself."""
        with suppress(Unavailable):
            reply_id = None if reply is None else reply.message.message_id
            await self._context.store.submit(EndWait(caller, message_id, reply_id))

    async def get(self, caller: Caller, message_id: str) -> wire.MessageView:
        store = self._context.store
        asked = MessageFor(caller.workspace_id, message_id, caller.handle, caller.reads_everything)
        found = await store.read(asked)
        if not found:
            raise NotFound("MESSAGE_NOT_FOUND", f"There is no message {message_id} that {caller.handle} can see.")
        row = found[0].message
        view = views.message(row, found[0].receipt, await store.now())
        await mark_seen(self._context, caller, found)
        if not (caller.reads_everything or caller.handle == row.sender):
            return view
        receipts = await store.read(ReceiptsOf(row.workspace_id, row.log_id))
        return msgspec.structs.replace(view, receipts=[views.receipt(one) for one in receipts])

    async def retract(self, caller: Caller, message_id: str, request: wire.RetractMessage) -> wire.MessageView:
        check_claims(caller, request)
        await self._context.store.submit(Retract(caller, message_id, request.reason))
        return await self.get(caller, message_id)


async def mark_seen(context: Context, caller: Caller, shown: list[Delivered]) -> None:
    """Seen is automatic.  A store that cannot write now does not keep anybody from reading."""
    fresh = tuple(one.message.message_id for one in shown if one.receipt is not None and one.receipt.seen_at is None)
    if not fresh:
        return
    try:
        await context.store.submit(MarkSeen(caller, fresh))
    except Unavailable:
        return


def _digest(request: wire.PostMessage) -> str:
    """How long the caller waits is not part of it, and a message has three more claims to repeat."""
    return digest(request, wait_seconds=0, idempotency_key=None, sender=UNSET, from_=UNSET, session_id=UNSET)
