"""Threads: ordered conversations with members, and the table of their states."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from wakeline.core.principal import Caller
from wakeline.errors import Conflict, Forbidden


class ThreadType(StrEnum):
    CONVERSATION = "conversation"
    WORKFLOW = "workflow"
    INCIDENT = "incident"


class Status(StrEnum):
    ACTIVE = "active"
    BLOCKED = "blocked"
    RESOLVED = "resolved"
    CLOSED = "closed"


# The machine, whole: a missing row is a refusal.  Same to same is a no-op and needs no row.
TRANSITIONS: frozenset[tuple[Status, Status]] = frozenset(
    {
        (Status.ACTIVE, Status.BLOCKED),
        (Status.ACTIVE, Status.RESOLVED),
        (Status.ACTIVE, Status.CLOSED),
        (Status.BLOCKED, Status.ACTIVE),
        (Status.BLOCKED, Status.CLOSED),
        (Status.RESOLVED, Status.ACTIVE),
        (Status.RESOLVED, Status.CLOSED),
    }
)


class Thread(msgspec.Struct, frozen=True, array_like=True, gc=False):
    thread_id: str
    workspace_id: int
    type: str
    status: str
    title: str
    audience_key: str | None  # what a message without a thread_id finds it by; None once closed
    created_by: str
    coordinator: str | None
    escalation_owner: str | None
    last_seq: int
    created_at: int
    updated_at: int
    closed_at: int | None = None
    role: str | None = None  # whose standing thread it is; also once closed, when the key is gone
    turns: int = 0  # changes of speaker among agents since something last moved on
    repeats: int = 0  # how often the last text was said in a row
    last_sender: str | None = None
    last_digest: str | None = None
    flips: int = 0  # how often agents have undone each other's change of status
    changed_by: str | None = None  # the agent that last changed the status, and from which one
    changed_from: str | None = None


class Member(msgspec.Struct, frozen=True, array_like=True, gc=False):
    thread_id: str
    handle: str
    workspace_id: int
    joined_at: int
    joined_seq: int
    last_read_seq: int = 0
    left_at: int | None = None
    session_id: str | None = None  # the member's session that last acted here


class Glimpse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stretch of a role's thread in which somebody who is not in it sent or received something.

    It is how their few messages are found among all others, and never a permission: the rule is asked for each.  The
    stretches of one handle do not overlap.
    """

    thread_id: str
    handle: str
    workspace_id: int
    first_seq: int
    last_seq: int


def check_transition(thread: Thread, wanted: Status, caller: Caller, *, override: bool, reason: str | None) -> None:
    """May this caller move this thread there?  Raises the refusal, returns nothing."""
    now = Status(thread.status)
    if (now, wanted) not in TRANSITIONS:
        raise Conflict(
            "INVALID_THREAD_TRANSITION",
            f"A {now} thread cannot become {wanted}.",
            from_status=now,
            to_status=wanted,
        )
    overriding = override and caller.manages_threads
    if override and not caller.manages_threads:
        raise Forbidden("ROLE_FORBIDDEN", "Only a coordinator or a human can override.", rule="override")
    if wanted is Status.CLOSED and not caller.manages_threads:
        raise Forbidden("ROLE_FORBIDDEN", "A participant cannot close a thread.", rule="close_thread")
    if now is Status.BLOCKED:
        _check_unblock(thread, wanted, caller, overriding=overriding)
    if overriding and not reason:
        raise Forbidden("OVERRIDE_REQUIRED", "An override needs a reason.", "Say why in 'reason'.", rule="override")


def _check_unblock(thread: Thread, wanted: Status, caller: Caller, *, overriding: bool) -> None:
    owner = thread.escalation_owner
    if overriding:
        return
    if wanted is Status.CLOSED:
        raise Forbidden("OVERRIDE_REQUIRED", "Closing a blocked thread needs an override.", rule="close_blocked")
    if owner is not None and owner != caller.handle:
        raise Forbidden(
            "OVERRIDE_REQUIRED",
            f"Only {owner}, who owns the escalation, or an override can unblock this thread.",
            rule="escalation_owner",
            escalation_owner=owner,
        )
