"""Stage 1, post: policy admits, then rows and log row in one group commit, then the answer.

`Post.decide` runs in the writer, in commit order.  It checks in the order role gate, thread, membership, grants,
blocks, guardrails, and puts rows only after the last check, so a refusal changes nothing.
"""

from __future__ import annotations

import msgspec

from wakeline.core import guardrail, policy
from wakeline.core.guardrail import Guardrails
from wakeline.core.ids import derived
from wakeline.core.message import Audience, Message, audience_key, is_standing
from wakeline.core.packed import Packed
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import AGENT, HUMAN, SYSTEM, Caller
from wakeline.core.thread import Status, Thread, ThreadType
from wakeline.errors import Conflict, Forbidden, InvalidArgument, NotFound, WakelineError
from wakeline.flow import ask, attend, belong, chase, entry, escalate, guard, once, tell, trace

_replace = msgspec.structs.replace
_encode = msgspec.json.Encoder().encode

OPERATION = "post_message"
# Refusals that mean "there is nobody to bring it to": the message is kept as a dead letter.  What is wrong in itself or
# forbidden is not, nor what names a thread that the sender cannot see: to them there is no such thread, ever.
UNDELIVERABLE = frozenset({"RECIPIENT_UNKNOWN", "NO_RECIPIENTS", "SESSION_NOT_FOUND", "THREAD_CLOSED"})


class Accepted(Packed, frozen=True):
    message_id: str
    thread_id: str
    seq: int
    log_id: int
    created_at: int
    epoch: str
    guard: guard.Fired | None = None


class Route(msgspec.Struct, frozen=True):
    """Where a message goes: its thread, who gets a receipt, who joins, and how the address reads."""

    thread: Thread
    recipients: list[str]
    joining: list[str]
    address: list[str]
    direct: bool


class Post(Packed, frozen=True):
    caller: Caller
    message: Message  # as sent: no thread, seq, log_id or time yet
    audience: Audience | None
    thread_id: str | None
    wake_policy: str | None
    tags: list[str]
    digest: str
    rails: Guardrails
    reached: tuple[str, ...] = ()  # by a human whose message has no `to`: who is in its thread
    wait: int = 0  # how long the caller waits for the answer, in microseconds

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        sender, message = self.caller.handle, self.message
        needs.handles.add(sender)
        needs.senders.add(sender)
        if message.idempotency_key is not None:
            needs.idempotency.add((sender, OPERATION, message.idempotency_key))
        if self.thread_id is not None:
            needs.threads.add(self.thread_id)
            needs.guests.add((self.thread_id, sender))
        if message.in_reply_to is not None:
            needs.messages.add(message.in_reply_to)
            needs.receipts.add((message.in_reply_to, sender))
        if message.supersedes is not None:
            needs.messages.add(message.supersedes)
            needs.receipts_of.add(message.supersedes)
        if message.session_id is not None and message.session_id != self.caller.session_id:
            needs.sessions.add(message.session_id)
        needs.workflows_of.update(self.reached)
        needs.waits |= self.wait > 0
        if self.caller.kind == AGENT:
            escalate.needs(needs)  # whom a guard would call
        if self.audience is not None:
            self._needs_of(self.audience, needs)

    def _needs_of(self, audience: Audience, needs: Needs) -> None:
        needs.handles.update(audience.handles)
        needs.sessions.update(session_id for _, session_id in audience.sessions)
        if self.caller.kind == HUMAN:
            needs.workflows_of.update(audience.handles)
        if audience.role is not None:
            needs.roles.add(audience.role)
        needs.everyone |= audience.everyone
        if self.thread_id is None:
            needs.audience_keys.add(audience_key(audience, self.caller.handle))

    def decide(self, picture: Picture) -> Accepted:
        message, sender = self.message, self.caller.handle
        policy.admit(picture, self.caller)
        before = once.earlier(picture, sender, OPERATION, message.idempotency_key, self.digest)
        if before is not None:
            earlier = msgspec.json.decode(before, type=Accepted)
            ask.renew(picture, self.caller, earlier.message_id, self.wait)
            return earlier
        policy.require_writer(self.caller)
        attend.check_claim(picture, self.caller, message.session_id)
        guardrail.check_tags(self.tags, self.caller, self.rails)
        route = self._route(picture)
        superseded = self._superseded(picture)
        wait = ask.check(picture, self.caller, message.message_id, route.recipients, self.wait)
        bucket = guardrail.take(picture.buckets.get(sender), self.workspace_id, sender, self.rails, picture.now)
        # Nothing below refuses.
        picture.put_bucket(bucket)
        if wait is not None:
            picture.put_wait(wait)
        return self._write(picture, route, superseded)

    # -- where it goes ------------------------------------------------------------------------------------------------

    def _route(self, picture: Picture) -> Route:
        replied = self._replied(picture)
        if self.audience is not None and self._is_own_thread(picture, self.audience):
            return self._to_many(picture, self.audience)
        if self.thread_id is not None or (self.audience is None and replied is not None):
            thread_id = self.thread_id or (replied.thread_id if replied is not None else "")
            return self._into_thread(picture, thread_id, replied)
        if self.audience is None:
            raise InvalidArgument(
                "INVALID_ARGUMENT", "Nobody is addressed.", "Give 'to', 'thread_id' or 'in_reply_to'."
            )
        if self.audience.is_direct:
            return self._to_handles(picture, self.audience, replied)
        return self._to_many(picture, self.audience)

    def _replied(self, picture: Picture) -> Message | None:
        message_id = self.message.in_reply_to
        if message_id is None:
            return None
        replied = picture.messages.get(message_id)
        if replied is None or not policy.may_read(picture, replied, self.caller):
            raise NotFound("MESSAGE_NOT_FOUND", f"There is no message {message_id} that {self.caller.handle} can see.")
        return replied

    def _is_own_thread(self, picture: Picture, audience: Audience) -> bool:
        """Was the very thread named that mail to this role or to everyone goes to anyway?"""
        thread = picture.threads.get(self.thread_id or "")
        return thread is not None and not audience.is_direct and thread.audience_key == audience_key(audience, "")

    def _into_thread(self, picture: Picture, thread_id: str, replied: Message | None) -> Route:
        sender = self.caller.handle
        thread = self._writable_thread(picture, thread_id, replied)
        members = picture.members_of(thread_id)
        asker = _asker(thread, replied)
        if self.audience is not None:
            chosen = self._chosen(picture, self.audience, members, asker)
        elif asker not in (None, sender):
            chosen = [asker]  # an answer in a standing thread goes to who asked, not to the whole role
        else:
            chosen = members
        # Mail to oneself is an address, not an echo: only who names themselves gets their own message.
        named = self.audience is not None and self.audience.is_direct
        wanted = [handle for handle in chosen if handle != sender or named]
        recipients = wanted
        if picture.blocks:
            recipients = [handle for handle in wanted if not picture.is_blocked(handle, sender)]
        if (named and len(recipients) < len(wanted)) or (wanted and not recipients):
            raise Forbidden("BLOCKED", f"A recipient has blocked {sender}.", rule="block")
        direct = named or (self.audience is None and (replied is not None or not is_standing(thread.audience_key)))
        return Route(thread, recipients, [sender] if thread.role is None else [], self._address(recipients), direct)

    def _writable_thread(self, picture: Picture, thread_id: str, replied: Message | None) -> Thread:
        sender, thread = self.caller.handle, picture.threads.get(thread_id)
        # Who is outside a role answers what they can see in its thread, and nothing else.
        answers = replied is not None and replied.thread_id == thread_id
        if thread is None or not (picture.is_member(thread_id, sender) or (answers and thread.role is not None)):
            thread = policy.visible_thread(picture, thread_id, self.caller)
            if not self.caller.manages_threads:
                hint = f"Write to role:{thread.role}, or reply to a message there." if thread.role is not None else None
                text = f"{sender} is not a member of this thread."
                raise Forbidden("NOT_A_MEMBER", text, hint, rule="membership")
        if thread.status == Status.CLOSED:
            raise Conflict("THREAD_CLOSED", f"Thread {thread_id} is closed.", thread_id=thread_id)
        return thread

    def _chosen(self, picture: Picture, audience: Audience, members: list[str], asker: str | None) -> list[str]:
        if audience.everyone:
            return members
        if audience.role is not None:
            holders = picture.holders.get(audience.role, [])
            chosen = [handle for handle in members if handle in holders]
            if not set(chosen) - {self.caller.handle}:
                raise NotFound("NO_RECIPIENTS", f"No other member of this thread is {audience.role}.")
            return chosen
        _require_present(picture, audience)
        for handle in audience.handles:
            if handle not in (*members, asker):
                raise Forbidden(
                    "NOT_A_MEMBER", f"{handle} is not a member of this thread.", rule="membership", handle=handle
                )
        return list(audience.handles)

    def _to_handles(self, picture: Picture, audience: Audience, replied: Message | None) -> Route:
        sender = self.caller.handle
        _require_present(picture, audience)
        for handle in audience.handles:
            known = replied is not None and replied.sender == handle
            policy.check_direct(picture, self.caller, handle, known=known, policy=self.rails.direct_messages)
        key = audience_key(audience, sender)
        members = sorted({sender, *audience.handles})
        thread = self._standing_thread(picture, key, ", ".join(members))
        return Route(thread, list(audience.handles), members, audience.addresses(audience.handles), direct=True)

    def _to_many(self, picture: Picture, audience: Audience) -> Route:
        sender = self.caller.handle
        found = picture.holders.get(audience.role, []) if audience.role is not None else list(picture.principals)
        present = [handle for handle in found if handle != SYSTEM and _is_present(picture, handle)]
        recipients = [handle for handle in present if handle != sender and not picture.is_blocked(handle, sender)]
        key = audience_key(audience, sender)
        if not recipients:
            raise NotFound("NO_RECIPIENTS", f"Nobody but {sender} is addressed by {key}.", to=key)
        thread = self._standing_thread(picture, key, key)
        return Route(thread, recipients, present, [key], direct=False)

    def _standing_thread(self, picture: Picture, key: str, title: str) -> Thread:
        thread_id = picture.thread_by_key.get(key)
        if thread_id is not None:
            return picture.threads[thread_id]
        return Thread(
            thread_id=derived(self.message.message_id, "thread"),
            workspace_id=self.workspace_id,
            type=ThreadType.CONVERSATION,
            status=Status.ACTIVE,
            title=title[:200],
            audience_key=key,
            created_by=self.caller.handle,
            coordinator=None,
            escalation_owner=None,
            last_seq=0,
            created_at=picture.now,
            updated_at=picture.now,
            role=None if self.audience is None else self.audience.role,
        )

    def _address(self, recipients: list[str]) -> list[str]:
        audience = self.audience
        if audience is None:
            return recipients
        if audience.is_direct:
            return audience.addresses(recipients)
        return [audience_key(audience, self.caller.handle)]

    # -- what it replaces ---------------------------------------------------------------------------------------------

    def _superseded(self, picture: Picture) -> Message | None:
        message_id = self.message.supersedes
        if message_id is None:
            return None
        superseded = picture.messages.get(message_id)
        if superseded is None or superseded.sender != self.caller.handle:
            raise NotFound("MESSAGE_NOT_FOUND", f"{self.caller.handle} has sent no message {message_id}.")
        if superseded.superseded_by is not None or superseded.retracted_at is not None:
            raise Conflict(
                "ALREADY_REPLACED",
                f"Message {message_id} was replaced or retracted already.",
                superseded_by=superseded.superseded_by,
            )
        return superseded

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _write(self, picture: Picture, route: Route, superseded: Message | None) -> Accepted:
        thread = route.thread
        if thread.thread_id not in picture.threads:
            picture.put_thread(thread)
        joined = belong.join(picture, thread, route.joining)
        attend.note_acting(picture, thread.thread_id, self.caller.handle, self.message.session_id)
        rails = self.rails
        chain, hops = trace.chain_of(picture, self.caller, self.message, thread.thread_id, rails.cause_minutes)
        # Who waits for an answer needs somebody who is awake, whoever that is.
        default = rails.direct_wake_policy if route.direct or self.wait else rails.broadcast_wake_policy
        message = _replace(
            self.message,
            recipients=_encode(route.address).decode(),
            wake_policy=self.wake_policy or default,
            chain=chain,
        )
        thread = guard.counted(thread, self.caller, message, route.recipients, joined=bool(joined))
        written = entry.write(picture, thread, message, route.recipients)
        chase.answered(picture, written)
        if superseded is not None:
            entry.lapse(picture, _replace(superseded, superseded_by=written.message_id), "superseded")
        if self.caller.kind == HUMAN and route.direct:
            tell.coordinators(picture, written, route.recipients)
        fired = guard.watch(picture, self.caller, written, hops, rails)
        return self._answer(picture, written, fired)

    def _answer(self, picture: Picture, written: Message, fired: guard.Fired | None) -> Accepted:
        place = written.message_id, written.thread_id, written.seq, written.log_id
        answer = Accepted(*place, written.created_at, picture.workspace.epoch, fired)
        key = written.idempotency_key
        once.remember(picture, written.sender, OPERATION, key, self.digest, written.message_id, answer)
        return answer


def _asker(thread: Thread, replied: Message | None) -> str | None:
    """Who is answered in a standing thread, perhaps from outside the role whose thread it is."""
    asked_here = replied is not None and replied.thread_id == thread.thread_id and is_standing(thread.audience_key)
    return replied.sender if replied is not None and asked_here else None


def _is_present(picture: Picture, handle: str) -> bool:
    principal = picture.principals.get(handle)
    return principal is not None and principal.retired_at is None


def _require_present(picture: Picture, audience: Audience) -> None:
    unknown = [handle for handle in audience.handles if not _is_present(picture, handle)]
    if unknown:
        raise NotFound("RECIPIENT_UNKNOWN", f"There is no {', '.join(unknown)} in this workspace.", unknown=unknown)
    attend.check_addressed(picture, audience.sessions)


def is_undeliverable(error: WakelineError) -> bool:
    return error.code in UNDELIVERABLE
