"""Messages, the inbox and threads."""

from __future__ import annotations

from wakeline.calls.call import KEYED, SAFE, Call, given, quote, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any


# -- messages ---------------------------------------------------------------------------------------------------------


def post_message(  # noqa: PLR0913 - the fields of a message
    body: str,
    *,
    to: Sequence[str] | str | None = None,
    thread_id: str | None = None,
    subject: str | None = None,
    kind: str | None = None,
    priority: str | None = None,
    wake_policy: str | None = None,
    tags: Sequence[str] | None = None,
    in_reply_to: str | None = None,
    idempotency_key: str | None = None,
    expires_at: datetime | str | None = None,
    answer_by: datetime | str | None = None,
    supersedes: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    session_id: str | None = None,
    wait_seconds: float | None = None,
) -> Call:
    """Post a message; with `wait_seconds`, also wait for the first reply to it."""
    fields = given(
        body=body,
        to=to,
        thread_id=thread_id,
        subject=subject,
        kind=kind,
        priority=priority,
        wake_policy=wake_policy,
        tags=tags,
        in_reply_to=in_reply_to,
        idempotency_key=idempotency_key,
        expires_at=expires_at,
        answer_by=answer_by,
        supersedes=supersedes,
        metadata=metadata,
        session_id=session_id,
        wait_seconds=wait_seconds,
    )
    return Call("POST", "/v1/messages", body=fields, repeat=KEYED)


def get_message(message_id: str) -> Call:
    """Read one message with its receipts."""
    return read(f"/v1/messages/{quote(message_id)}")


def retract_message(message_id: str, *, reason: str | None = None) -> Call:
    """Take a message back that nobody has read."""
    return Call("POST", f"/v1/messages/{quote(message_id)}/retract", body=given(reason=reason), repeat=SAFE)


def get_inbox(
    *,
    limit: int | None = None,
    max_tokens: int | None = None,
    after: str | None = None,
    state: str | None = None,
    of: str | None = None,
) -> Call:
    """Read the inbox, unread mail unless `state` says otherwise."""
    return read("/v1/inbox", limit=limit, max_tokens=max_tokens, after=after, state=state, of=of)


def wait_for_mail(*, after: str | None = None, wait_seconds: float | None = None) -> Call:
    """See what is unread after a position, and wait for it if there is nothing yet; leaves no trace."""
    return read("/v1/inbox/wait", after=after, wait_seconds=wait_seconds)


def ack_messages(message_ids: Sequence[str]) -> Call:
    """Mark messages as read."""
    return Call("POST", "/v1/inbox/ack", body={"message_ids": message_ids}, repeat=SAFE)


def archive_messages(message_ids: Sequence[str]) -> Call:
    """Put messages away; they no longer count as unread."""
    return Call("POST", "/v1/inbox/archive", body={"message_ids": message_ids}, repeat=SAFE)


def search(q: str, *, thread_id: str | None = None, sender: str | None = None, limit: int | None = None) -> Call:
    """Find messages by their words."""
    return read("/v1/search", q=q, thread_id=thread_id, sender=sender, limit=limit)


# -- threads ----------------------------------------------------------------------------------------------------------


def create_thread(
    title: str,
    *,
    type: str | None = None,  # noqa: A002 - the name on the wire
    members: Sequence[str] | None = None,
    coordinator: str | None = None,
    idempotency_key: str | None = None,
) -> Call:
    """Open a thread with these members."""
    fields = given(title=title, type=type, members=members, coordinator=coordinator, idempotency_key=idempotency_key)
    return Call("POST", "/v1/threads", body=fields, repeat=KEYED)


def list_threads(
    *,
    status: str | None = None,
    type: str | None = None,  # noqa: A002 - the name on the wire
    limit: int | None = None,
    after: str | None = None,
) -> Call:
    """List the threads that the caller may see."""
    return read("/v1/threads", status=status, type=type, limit=limit, after=after)


def get_thread(thread_id: str) -> Call:
    """Show one thread with its members."""
    return read(f"/v1/threads/{quote(thread_id)}")


def add_members(thread_id: str, members: Sequence[str]) -> Call:
    """Add members to a thread."""
    return Call("POST", f"/v1/threads/{quote(thread_id)}/members", body={"members": members}, repeat=SAFE)


def remove_members(thread_id: str, members: Sequence[str]) -> Call:
    """Remove members from a thread."""
    return Call("DELETE", f"/v1/threads/{quote(thread_id)}/members", body={"members": members})


def change_status(
    thread_id: str,
    status: str,
    *,
    reason: str | None = None,
    escalation_owner: str | None = None,
    override: bool | None = None,
) -> Call:
    """Move a thread to another status."""
    fields = given(status=status, reason=reason, escalation_owner=escalation_owner, override=override)
    return Call("POST", f"/v1/threads/{quote(thread_id)}/status", body=fields, repeat=SAFE)


def read_thread(
    thread_id: str, *, since_seq: int | None = None, limit: int | None = None, max_tokens: int | None = None
) -> Call:
    """Read the messages of a thread, in order."""
    return read(f"/v1/threads/{quote(thread_id)}/messages", since_seq=since_seq, limit=limit, max_tokens=max_tokens)


def ack_thread(thread_id: str, last_read_seq: int) -> Call:
    """Mark a thread as read up to a message."""
    return Call("POST", f"/v1/threads/{quote(thread_id)}/ack", body={"last_read_seq": last_read_seq}, repeat=SAFE)


def summarize_thread(thread_id: str) -> Call:
    """Summarise a thread: who takes part, what is open, what was decided."""
    return read(f"/v1/threads/{quote(thread_id)}/summary")
