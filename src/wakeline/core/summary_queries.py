"""The reads of a summary: who spoke in a thread, what may be asked there still, what may have been decided.

They look at the whole thread, however long it is, and bring back little of it.
"""

from __future__ import annotations

import msgspec

from wakeline.core.message import Message
from wakeline.core.queries import Query

BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001))))  # what Python strips; there are none above


class Voice(msgspec.Struct, frozen=True):
    """What one sender has said in a thread, as far as the reader may read it."""

    sender: str
    messages: int
    first_seq: int
    first_at: int
    last_at: int


class ThreadVoices(Query[Voice], frozen=True):
    thread_id: str
    reader: str
    everything: bool
    row = Voice


class ThreadQuestions(Query[Message], frozen=True):
    """The newest questions that nobody but their sender has replied to in the thread."""

    thread_id: str
    reader: str
    everything: bool
    now: int
    limit: int
    blanks: str = BLANKS
    row = Message


class ThreadDecisions(Query[Message], frozen=True):
    """The newest messages that look like decisions."""

    thread_id: str
    reader: str
    everything: bool
    now: int
    limit: int
    blanks: str = BLANKS
    row = Message
