"""What a batch appended to the log, as its writer knows it: what a reader would find, without reading it back."""

from __future__ import annotations

from functools import cached_property

from wakeline.core.log import THREAD_STREAM, LogEntry
from wakeline.core.picture import Picture
from wakeline.core.queries import Entry

_OF_A_MESSAGE = frozenset({"message.posted", "message.retracted"})


class Appended:
    """Nothing is made before somebody who listens asks.  The batch is committed, so its picture stands still."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    @property
    def workspace_id(self) -> int:
        return self._picture.workspace.workspace_id

    @property
    def rows(self) -> list[LogEntry]:
        return self._picture.changes.log

    def entries(self) -> list[Entry]:
        """As `LogAfter` would read them."""
        messages = self._picture.changes.messages
        return [Entry(row, messages[row.subject or ""] if row.kind == "message.posted" else None) for row in self.rows]

    def audience(self) -> dict[int, list[str]]:
        """Who may see each thread's row, as `LogMembers` would tell.

        Whoever writes into a thread was shown all of its members: the facts bring them with the thread.
        """
        found: dict[int, list[str]] = {}
        for row in self.rows:
            if row.stream.startswith(THREAD_STREAM):
                thread_id = row.stream.removeprefix(THREAD_STREAM)
                members = self._picture.members_of(thread_id)
                found[row.log_id] = list(dict.fromkeys([*members, *self._outside(row, thread_id)]))
        return found

    def _outside(self, row: LogEntry, thread_id: str) -> list[str]:
        """Who sent or received the message, where somebody can be out of a thread and still have mail in it."""
        thread = self._picture.threads.get(thread_id)
        if row.kind not in _OF_A_MESSAGE or thread is None or (thread.role is None and thread.audience_key is not None):
            return []
        sender = self._picture.messages[row.subject or ""].sender
        return [sender, *self._recipients.get((thread_id, row.stream_seq), ())]

    @cached_property
    def _recipients(self) -> dict[tuple[str, int], list[str]]:
        found: dict[tuple[str, int], list[str]] = {}
        for thread_id, seq, recipient in self._picture.receipts:
            found.setdefault((thread_id, seq), []).append(recipient)
        return found
