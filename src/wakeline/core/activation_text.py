"""What a started process is told: the doorbell, and for a new session what its thread is about.  Never a body.

The sentences are ours and fixed.  A title is a peer's words and stands quoted; questions and decisions are named by who
said them and by their ids, so that their words are fetched like every other body, as data.
"""

from __future__ import annotations

from collections.abc import Sequence

from wakeline import wire
from wakeline.core.doorbell import quote

MOST_NAMED = 5
MOST_PEOPLE = 8


def outline(summary: wire.ThreadSummary) -> str:
    """A thread for who has never seen it."""
    people = [f"{one.handle} ({one.messages})" for one in summary.participants[:MOST_PEOPLE]]
    more = ", and others" if len(summary.participants) > MOST_PEOPLE else ""
    about = f"{summary.type}, {summary.status}, with {summary.messages} messages by {', '.join(people)}{more}"
    lines = [
        "This is a new session, which knows nothing of what was written before.",
        f"Thread {summary.thread_id}, titled {quote(summary.title)} by its members: {about}.",
        *_named("Open questions", summary.open_questions),
        *_named("Decisions", summary.decisions),
        "Read it with read_messages and its thread id; summarize_thread tells more.",
    ]
    return " ".join(lines)


def _named(what: str, pointers: Sequence[wire.OpenQuestion | wire.Decision]) -> list[str]:
    if not pointers:
        return []
    shown = [f"#{one.seq} of {one.sender}" for one in pointers[-MOST_NAMED:]]
    return [f"{what}: {len(pointers)} (last: {', '.join(shown)})."]
