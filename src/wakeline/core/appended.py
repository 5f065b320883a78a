"""What a batch appended to the log, as its writer knows it: what a reader would find, without reading it back."""

from __future__ import annotations

import msgspec

from wakeline.core.log import CONTROL, THREAD_STREAM, LogEntry
from wakeline.core.packed import Packed
from wakeline.core.picture import Picture
from wakeline.core.queries import Entry

_OF_A_MESSAGE = frozenset({"message.posted", "message.retracted"})

Audience = dict[int, list[str]]  # by log_id: who may see a thread's row


class Appended(Packed, frozen=True):
    """The stretch `first` to `last`.  Its rows are there only if somebody wanted to hear them when it was written."""

    workspace_id: int
    first: int
    last: int
    control: list[LogEntry]
    entries: list[Entry] | None = None  # as `LogAfter` would read them
    audience: Audience = msgspec.field(default_factory=dict)  # as `LogMembers` would tell


def appended(picture: Picture, *, whole: bool) -> Appended:
    rows = picture.changes.log
    control = [row for row in rows if row.kind in CONTROL]
    stretch = picture.workspace.workspace_id, rows[0].log_id, rows[-1].log_id
    if not whole:
        return Appended(*stretch, control)
    messages = picture.changes.messages
    entries = [Entry(row, messages[row.subject or ""] if row.kind == "message.posted" else None) for row in rows]
    return Appended(*stretch, control, entries, _audience(picture))


def _audience(picture: Picture) -> Audience:
    """Whoever writes into a thread was shown all of its members: the facts bring them with the thread."""
    recipients = _recipients(picture)
    found: Audience = {}
    for row in picture.changes.log:
        if row.stream.startswith(THREAD_STREAM):
            thread_id = row.stream.removeprefix(THREAD_STREAM)
            outside = _outside(picture, row, thread_id, recipients)
            found[row.log_id] = list(dict.fromkeys([*picture.members_of(thread_id), *outside]))
    return found


def _outside(
    picture: Picture, row: LogEntry, thread_id: str, recipients: dict[tuple[str, int], list[str]]
) -> list[str]:
    """Who sent or received the message, where somebody can be out of a thread and still have mail in it."""
    thread = picture.threads.get(thread_id)
    if row.kind not in _OF_A_MESSAGE or thread is None or (thread.role is None and thread.audience_key is not None):
        return []
    sender = picture.messages[row.subject or ""].sender
    return [sender, *recipients.get((thread_id, row.stream_seq), ())]


def _recipients(picture: Picture) -> dict[tuple[str, int], list[str]]:
    found: dict[tuple[str, int], list[str]] = {}
    for thread_id, seq, recipient in picture.receipts:
        found.setdefault((thread_id, seq), []).append(recipient)
    return found
