"""Trace where messages come from: remember what a principal took up, and give what it says next its chain."""

from __future__ import annotations

from collections.abc import Iterable

from wakeline.core import chain
from wakeline.core.message import Message
from wakeline.core.picture import Picture
from wakeline.core.principal import AGENT, Caller
from wakeline.core.records import Cause

Traced = tuple[str | None, int]  # the chain as it is stored, and its length if it has just grown, else 0


def take_up(picture: Picture, caller: Caller, messages: Iterable[Message]) -> None:
    """The newest of these that somebody else sent is what the caller's next message comes from."""
    theirs = [message for message in messages if message.sender != caller.handle]
    if theirs and caller.kind == AGENT:
        newest = max(theirs, key=lambda message: message.log_id)
        _put(picture, caller, newest.message_id, newest.thread_id, chain.of(newest))


def start_anew(picture: Picture, caller: Caller, entry: Message) -> None:
    """The caller moved something on: what it says next comes from that, not from what it took up before."""
    if caller.kind == AGENT:
        _put(picture, caller, entry.message_id, entry.thread_id, chain.of(entry))


def _put(picture: Picture, caller: Caller, message_id: str, thread_id: str, text: str) -> None:
    session = caller.session_id or ""
    picture.put_cause(Cause(caller.workspace_id, caller.handle, session, message_id, thread_id, text, picture.now))


def chain_of(picture: Picture, caller: Caller, message: Message, thread_id: str, minutes: int) -> Traced:
    """The chain of a message that goes into this thread; None: it comes from nothing but its sender.

    A reply comes from what it answers.  Anything else comes from what the sender last took up, if that is recent.  What
    a human or the system says begins anew.
    """
    if caller.kind != AGENT:
        return None, 0
    if message.in_reply_to is not None:
        replied = picture.messages[message.in_reply_to]
        return chain.carried(chain.of(replied), caller.handle, elsewhere=replied.thread_id != thread_id)
    cause = picture.causes.get((caller.handle, caller.session_id or ""))
    if cause is None or cause.chain is None or not chain.is_recent(cause, picture.now, minutes):
        return None, 0
    return chain.carried(cause.chain, caller.handle, elsewhere=cause.thread_id != thread_id)
