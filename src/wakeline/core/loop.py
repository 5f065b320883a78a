"""Count what goes round in circles in one thread: turns between agents, one text again and again, a status to and fro.

The counters stand in the thread's own row and are written with the end that every message moves, so they cost no write
and survive a crash.  Progress sets them back.  Progress is what shows that somebody looked: a human's message, a change
of status, a new member, and an event that the system reports.  What an agent says is never progress, however new.
"""

from __future__ import annotations

import hashlib

import msgspec

from wakeline.core.alarm import LOOP_CHAIN, LOOP_REPEATS, LOOP_TURNS
from wakeline.core.guardrail import Guardrails
from wakeline.core.message import MessageKind
from wakeline.core.principal import HUMAN, Kind
from wakeline.core.thread import Thread

# Longer texts are compared as they are, because every post pays for this.
NORMALISED = 4_000
_SPACES = b" \t\n\r\v\f"
_LOWER = bytes(range(256)).lower()
_replace = msgspec.structs.replace


def digest(text: str) -> str:
    """The same for texts that differ only in spaces and in upper and lower case."""
    data = text.encode() if text.isascii() else text.casefold().encode()
    if len(data) <= NORMALISED:
        # Without any spaces rather than with single ones: a tenth of the time, and nobody means two things by it.
        data = data.translate(_LOWER, _SPACES)
    return hashlib.sha256(data).hexdigest()[:16]


def is_progress(sender_kind: str, message_kind: str) -> bool:
    """Does a message of this kind, from this kind of principal, show that somebody looked?"""
    return sender_kind == HUMAN or (sender_kind == Kind.SYSTEM and message_kind == MessageKind.EVENT)


def said(thread: Thread, sender: str, text: str) -> Thread:
    """The thread with its counters after an agent has said this."""
    words = digest(text)
    return _replace(
        thread,
        turns=thread.turns + (thread.last_sender not in (None, sender)),
        repeats=thread.repeats + 1 if words == thread.last_digest else 1,
        last_sender=sender,
        last_digest=words,
    )


def moved_on(thread: Thread) -> Thread:
    """The thread with its counters after progress."""
    return _replace(thread, turns=0, repeats=0, last_sender=None, last_digest=None)


def settled(thread: Thread) -> Thread:
    """The thread after a human had a say: nobody undoes anybody any more."""
    return _replace(thread, flips=0, changed_by=None, changed_from=None)


def changed(thread: Thread, status: str, agent: str) -> Thread:
    """The thread with its counters after an agent changed its status to this one.

    It is a flip if it goes back to where the last change came from, and another agent made that one.
    """
    undone = thread.changed_from == status and thread.changed_by not in (None, agent)
    return _replace(moved_on(thread), flips=thread.flips + undone, changed_by=agent, changed_from=thread.status)


def is_contradictory(thread: Thread, rails: Guardrails) -> bool:
    return 0 < rails.status_flip_limit < thread.flips


def verdict(thread: Thread, hops: int, rails: Guardrails) -> str | None:
    """The code of the guard that fires, the most telling first.  `hops`: of the chain, if it has just grown, else 0."""
    if 0 < rails.loop_repeat_limit <= thread.repeats:
        return LOOP_REPEATS
    if 0 < rails.loop_turn_limit <= thread.turns:
        return LOOP_TURNS
    return LOOP_CHAIN if 0 < rails.loop_chain_limit <= hops else None
