"""Who may do what: role gate, then membership, then grants, then blocks.  A block always wins.

Every refusal names the rule that refused; the catalogue's hint says what would allow it.
"""

from __future__ import annotations

from wakeline.core.message import Message
from wakeline.core.picture import Picture
from wakeline.core.principal import AUDITOR, Caller, Kind, Principal
from wakeline.core.thread import Thread
from wakeline.errors import Forbidden, NotFound, Unauthorized

CAN_REPLY_TO = "CAN_REPLY_TO"
CAN_READ_INBOX_OF = "CAN_READ_INBOX_OF"


def admit(picture: Picture, caller: Caller) -> Principal:
    """The caller as the store knows it now: a retired principal's token opens nothing."""
    principal = picture.principals.get(caller.handle)
    if principal is None or principal.retired_at is not None:
        raise Unauthorized("TOKEN_INVALID", f"{caller.handle} is not a principal of this workspace.")
    return principal


def require_writer(caller: Caller) -> None:
    if caller.role == AUDITOR and caller.kind != Kind.HUMAN:
        raise Forbidden("ROLE_FORBIDDEN", "An auditor reads everything and writes nothing.", rule="role_gate")


def require_human(caller: Caller, what: str) -> None:
    if caller.kind != Kind.HUMAN:
        raise Forbidden("ROLE_FORBIDDEN", f"Only a human may {what}.", rule="role_gate")


def require_operator(caller: Caller, what: str) -> None:
    if not caller.operator:
        raise Forbidden("OPERATOR_REQUIRED", f"Only the operator may {what}.", rule="operator")


def require_bridge(caller: Caller) -> str:
    """The host whose sessions the caller acts for."""
    if caller.host is None:
        raise Forbidden("BRIDGE_REQUIRED", "Only the bridge of a host may do this.", rule="bridge")
    return caller.host


def may_read(picture: Picture, message: Message, caller: Caller) -> bool:
    """Whoever reads everything or is in the thread now; whoever sent it; whoever it was brought to.

    This is the one rule of who reads a message; `store/sql/visible.sql` says the same where the store is read.  A
    command that asks must need the caller's receipt.
    """
    return (
        caller.reads_everything
        or message.sender == caller.handle
        or picture.is_member(message.thread_id, caller.handle)
        or (message.thread_id, message.seq, caller.handle) in picture.receipts
    )


def visible_thread(picture: Picture, thread_id: str, caller: Caller) -> Thread:
    """The thread, if the caller may know of it.  To others it does not exist, so that ids tell nothing."""
    thread, handle = picture.threads.get(thread_id), caller.handle
    known = picture.is_member(thread_id, handle) or picture.is_guest(thread_id, handle)
    if thread is None or not (known or caller.reads_everything):
        raise NotFound("THREAD_NOT_FOUND", f"There is no thread {thread_id} that {caller.handle} can see.")
    return thread


def require_manager(thread: Thread, caller: Caller, what: str) -> None:
    if not (caller.manages_threads or caller.handle in (thread.created_by, thread.coordinator)):
        raise Forbidden(
            "ROLE_FORBIDDEN",
            f"Only the thread's creator, a coordinator or a human may {what}.",
            rule="thread_manage",
        )


def check_direct(picture: Picture, caller: Caller, recipient: str, *, known: bool, policy: str) -> None:
    """May the caller write to this recipient directly?  `known`: the recipient has written to the caller before."""
    if picture.is_blocked(recipient, caller.handle):
        raise Forbidden("BLOCKED", f"{recipient} has blocked {caller.handle}.", rule="block")
    if policy == "open" or known or caller.manages_threads or recipient == caller.handle:
        return
    if not picture.is_granted(CAN_REPLY_TO, caller.handle, recipient):
        raise Forbidden(
            "GRANT_MISSING",
            f"{caller.handle} may not write to {recipient} first.",
            f"{recipient} or the human can grant CAN_REPLY_TO: 'wakeline grant add CAN_REPLY_TO {caller.handle} "
            f"{recipient}'.",
            rule=CAN_REPLY_TO,
        )
