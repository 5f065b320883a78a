"""Open threads, change who is in them, and move them through their states.  Each change is an entry in the thread."""

from __future__ import annotations

import msgspec

from wakeline.core import loop, policy
from wakeline.core.guardrail import Guardrails
from wakeline.core.log import THREAD_STREAM
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller, Kind
from wakeline.core.thread import Status, Thread, ThreadType, check_transition
from wakeline.errors import Conflict, Forbidden, InvalidArgument, NotFound
from wakeline.flow import belong, entry, escalate, guard, once, trace

_replace = msgspec.structs.replace

CREATE = "create_thread"


class CreateThread(msgspec.Struct, frozen=True):
    caller: Caller
    thread_id: str
    title: str
    type: str
    members: tuple[str, ...]
    coordinator: str | None
    idempotency_key: str | None
    digest: str
    direct_messages: str = "open"

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.update({self.caller.handle, *self.members})
        needs.senders.add(self.caller.handle)
        if self.coordinator is not None:
            needs.handles.add(self.coordinator)
        if self.idempotency_key is not None:
            needs.idempotency.add((self.caller.handle, CREATE, self.idempotency_key))

    def decide(self, picture: Picture) -> str:
        caller, key = self.caller, self.idempotency_key
        policy.admit(picture, caller)
        before = once.earlier(picture, caller.handle, CREATE, key, self.digest)
        if before is not None:
            return msgspec.json.decode(before, type=str)
        policy.require_writer(caller)
        if self.type == ThreadType.WORKFLOW and self.coordinator is None:
            raise InvalidArgument(
                "INVALID_ARGUMENT", "A workflow thread names its coordinator.", "Give 'coordinator': a handle."
            )
        members = list(dict.fromkeys([caller.handle, *self.members, *([self.coordinator] if self.coordinator else [])]))
        check_joinable(picture, caller, members, self.direct_messages)
        thread = Thread(
            self.thread_id, self.workspace_id, self.type, Status.ACTIVE, self.title, None, caller.handle,
            self.coordinator, None, 0, picture.now, picture.now,
        )  # fmt: skip
        picture.put_thread(thread)
        belong.join(picture, thread, members)
        data = {"type": self.type, "title": self.title, "members": members}
        picture.append("thread.created", THREAD_STREAM + self.thread_id, 0, caller.handle, self.thread_id, data)
        once.remember(picture, caller.handle, CREATE, key, self.digest, self.thread_id, self.thread_id)
        return self.thread_id


def check_joinable(picture: Picture, caller: Caller, handles: list[str], direct_messages: str) -> None:
    """Who may not write to somebody may not draw them into a thread either."""
    for handle in handles:
        principal = picture.principals.get(handle)
        if principal is None or principal.retired_at is not None or principal.kind == Kind.SYSTEM:
            raise NotFound("AGENT_NOT_FOUND", f"There is no {handle} in this workspace.", handle=handle)
        policy.check_direct(picture, caller, handle, known=False, policy=direct_messages)


class _ThreadChange(msgspec.Struct, frozen=True):
    caller: Caller
    thread_id: str
    entry_id: str

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.senders.add(self.caller.handle)
        needs.threads.add(self.thread_id)
        needs.guests.add((self.thread_id, self.caller.handle))

    def _open_thread(self, picture: Picture) -> Thread:
        policy.admit(picture, self.caller)
        policy.require_writer(self.caller)
        return policy.visible_thread(picture, self.thread_id, self.caller)


class AddMembers(_ThreadChange, frozen=True):
    members: tuple[str, ...]
    direct_messages: str = "open"

    def needs(self, needs: Needs) -> None:
        super().needs(needs)
        needs.handles.update(self.members)

    def decide(self, picture: Picture) -> None:
        thread = self._open_thread(picture)
        policy.require_manager(thread, self.caller, "add members")
        _require_named(thread)
        check_joinable(picture, self.caller, list(self.members), self.direct_messages)
        joined = belong.join(picture, thread, self.members)
        if joined:
            text = f"{self.caller.handle} added {', '.join(joined)}."
            about = {"event": "members_added", "members": joined}
            picture.move_thread_tail(loop.moved_on(thread))
            written = entry.write_system(picture, thread, self.entry_id, self.caller.handle, text, joined, about)
            trace.start_anew(picture, self.caller, written)


class RemoveMembers(_ThreadChange, frozen=True):
    members: tuple[str, ...]

    def decide(self, picture: Picture) -> None:
        thread = self._open_thread(picture)
        if set(self.members) != {self.caller.handle}:  # anybody may leave
            policy.require_manager(thread, self.caller, "remove members")
        _require_named(thread)
        present = [handle for handle in self.members if picture.is_member(self.thread_id, handle)]
        for handle in present:
            member = picture.members[self.thread_id][handle]
            picture.put_member(_replace(member, left_at=picture.now))
        if present:
            text = f"{self.caller.handle} removed {', '.join(present)}."
            about = {"event": "members_removed", "members": present}
            entry.write_system(picture, thread, self.entry_id, self.caller.handle, text, [], about)


def _require_named(thread: Thread) -> None:
    if thread.status == Status.CLOSED:
        raise Conflict("THREAD_CLOSED", f"Thread {thread.thread_id} is closed.", "Open a new thread.")
    if thread.audience_key is not None:
        raise Conflict(
            "INVALID_THREAD_TRANSITION",
            "The members of a direct, role or broadcast thread follow from its address.",
            "Create a thread with the members that are wanted.",
        )


class ChangeStatus(_ThreadChange, frozen=True):
    status: Status
    reason: str | None
    escalation_owner: str | None
    override: bool
    rails: Guardrails = Guardrails()

    def needs(self, needs: Needs) -> None:
        super().needs(needs)
        escalate.needs(needs)  # whom a guard would call
        if self.escalation_owner is not None:
            needs.handles.add(self.escalation_owner)

    def decide(self, picture: Picture) -> None:
        thread = self._open_thread(picture)
        inside = self.caller.manages_threads or picture.is_member(self.thread_id, self.caller.handle)
        # An escalation may go to somebody outside the role whose thread it is; they answer it from there.
        if not (inside or thread.escalation_owner == self.caller.handle):
            raise Forbidden("NOT_A_MEMBER", f"{self.caller.handle} is not a member.", rule="membership")
        owner = self._owner(picture, thread)
        if thread.status == self.status and owner == thread.escalation_owner:
            return
        if thread.status != self.status:
            check_transition(thread, self.status, self.caller, override=self.override, reason=self.reason)
        self._apply(picture, thread, owner)

    def _owner(self, picture: Picture, thread: Thread) -> str | None:
        wanted = self.escalation_owner
        if self.status != Status.BLOCKED:
            if wanted is not None:
                raise InvalidArgument(
                    "INVALID_ARGUMENT", "Only a blocked thread has an escalation owner.", "Leave it out."
                )
            return None  # leaving blocked clears it
        if wanted is None:
            return thread.escalation_owner
        check_joinable(picture, self.caller, [wanted], self.rails.direct_messages)
        before = thread.escalation_owner
        if before not in (None, wanted, self.caller.handle) and not self.caller.manages_threads:
            raise Forbidden("OVERRIDE_REQUIRED", f"{before} owns the escalation.", rule="escalation_owner")
        return wanted

    def _apply(self, picture: Picture, thread: Thread, owner: str | None) -> None:
        now = picture.now
        closing = self.status == Status.CLOSED
        changed = _replace(
            guard.status_changed(thread, self.status, self.caller),
            status=str(self.status),
            escalation_owner=owner,
            updated_at=now,
            closed_at=now if closing else None,
            # A closed thread gives up its address, so that the next message to it opens a fresh one.
            audience_key=None if closing else thread.audience_key,
        )
        picture.put_thread(changed)
        text = f"{self.caller.handle} changed the status from {thread.status} to {self.status}"
        about = {
            "event": "status_changed",
            "from": thread.status,
            "to": str(self.status),
            "reason": self.reason,
            "escalation_owner": owner,
            "override": self.override,
        }
        told = [handle for handle in picture.members_of(self.thread_id) if handle != self.caller.handle]
        if owner is not None and owner != self.caller.handle and owner not in told:
            if thread.role is None:
                belong.join(picture, changed, [owner])
            told.append(owner)
        body = f"{text}: {self.reason}" if self.reason else f"{text}."
        written = entry.write_system(picture, changed, self.entry_id, self.caller.handle, body, told, about)
        trace.start_anew(picture, self.caller, written)
        guard.watch_status(picture, self.caller, written, self.rails)
