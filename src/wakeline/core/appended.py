"""What a batch appended to the log, as its writer knows it: what a reader would find, without reading it back."""

from __future__ import annotations

from wakeline.core.log import THREAD_STREAM, LogEntry
from wakeline.core.picture import Picture
from wakeline.core.queries import Entry


class Appended:
    """Nothing is made before somebody who listens asks.  The batch is committed, so its picture stands still."""

    __slots__ = ("_picture",)

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
        threads = [row for row in self.rows if row.stream.startswith(THREAD_STREAM)]
        return {row.log_id: self._picture.members_of(row.stream.removeprefix(THREAD_STREAM)) for row in threads}
