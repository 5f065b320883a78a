"""A pane that its user gave to a session: a mark on the pane itself, as an option of tmux.

What a session says of itself is the word of whoever holds its agent's token, and any of them can name any pane.  An
option of a pane can be set only by who may use that tmux server, who could type there anyway.  So the mark, and not the
session, says who may be rung there: which session, and in which program.
"""

from __future__ import annotations

from wakeline.core.session import START_TOLERANCE, Session, Sighting

OPTION = "@wakeline_session"


def gift(handle: str, session_id: str, pid: int, started_at: int | None) -> str:
    return f"{handle}/{session_id} {pid} {started_at or 0}"


def is_given(mark: str, session: Session, sighting: Sighting) -> bool:
    """`sighting` of the process that the session names: a number may have been given to another one since."""
    who, pid, started = (*mark.split(), "", "", "")[:3]
    if (who, pid) != (f"{session.handle}/{session.session_id}", str(session.pid)) or not started.isdecimal():
        return False
    exists, started_at = sighting
    return exists and (started_at is None or abs(started_at - int(started)) <= START_TOLERANCE)
