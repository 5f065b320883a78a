"""Guard threads against agents that go round in circles: count, and when it is too much, block and call the human.

What made a guard fire is stored like any other message: nothing is lost, and nothing is refused.  All that a guard does
is in the same commit, so there is no moment in which a thread is blocked and nobody was told.  A blocked thread does
not fire again; unblocking it is progress and sets the counters back.
"""

from __future__ import annotations

from typing import Any

import msgspec

from wakeline.core import alarm, chain, loop
from wakeline.core.alarm import Alarm
from wakeline.core.guardrail import Guardrails
from wakeline.core.ids import derived
from wakeline.core.log import THREAD_STREAM
from wakeline.core.message import Message
from wakeline.core.picture import Picture
from wakeline.core.principal import AGENT, SYSTEM, Caller
from wakeline.core.thread import Status, Thread
from wakeline.flow import entry, escalate

_replace = msgspec.structs.replace


class Fired(msgspec.Struct, frozen=True):
    code: str
    incident_thread_id: str | None  # None: there is no human to tell


def counted(thread: Thread, caller: Caller, message: Message, heard_by: list[str], *, joined: bool) -> Thread:
    """The thread with its counters after this message.  What nobody else hears cannot go round."""
    if loop.is_progress(caller.kind, message.kind):
        moved_on = loop.moved_on(thread)
        return loop.settled(moved_on) if caller.is_human else moved_on
    if caller.kind != AGENT or heard_by in ([], [caller.handle]):
        return thread
    return loop.said(loop.moved_on(thread) if joined else thread, caller.handle, message.body)


def watch(picture: Picture, caller: Caller, written: Message, hops: int, rails: Guardrails) -> Fired | None:
    """Look at the thread after a post.  `hops`: of the message's chain, if it has just grown, else 0."""
    thread = picture.threads[written.thread_id]
    if caller.kind != AGENT or thread.status == Status.BLOCKED:
        return None
    code = loop.verdict(thread, hops, rails)
    return None if code is None else fire(picture, Alarm(code, thread, written), rails)


def status_changed(thread: Thread, status: str, caller: Caller) -> Thread:
    """The thread with its counters before its status becomes this one.  A human, or ending an escalation, settles."""
    if caller.kind != AGENT or thread.escalation_owner is not None:
        return loop.settled(loop.moved_on(thread))
    return loop.changed(thread, status, caller.handle) if status != thread.status else thread


def watch_status(picture: Picture, caller: Caller, written: Message, rails: Guardrails) -> Fired | None:
    """Look at the thread after a change of its status, which this entry tells."""
    thread = picture.threads[written.thread_id]
    if caller.kind != AGENT or thread.status == Status.CLOSED or not loop.is_contradictory(thread, rails):
        return None
    return fire(picture, Alarm(alarm.CONTRADICTORY_STATUS, thread, written), rails)


def fire(picture: Picture, raised: Alarm, rails: Guardrails) -> Fired:
    thread, message = raised.thread, raised.message
    humans = escalate.humans(picture, rails.human_handle)
    told = [handle for handle in picture.members_of(thread.thread_id) if handle not in humans]
    text = alarm.text(raised, told, rails)
    about = _about(raised)
    _block(picture, raised, humans[0] if humans else None, text, told)
    source = derived(message.message_id, raised.code)
    opened = None
    if humans:
        opened = escalate.incident(picture, source, alarm.title(raised), _advice(raised, text), humans, about)
    data = {**about, "incident_thread_id": opened}
    picture.append("guard.fired", THREAD_STREAM + thread.thread_id, message.seq, SYSTEM, thread.thread_id, data)
    return Fired(raised.code, opened)


def _about(raised: Alarm) -> dict[str, Any]:
    text = raised.message.chain
    traced = None if text is None else chain.parse(text)
    return {
        "guard": raised.code,
        "thread_id": raised.thread.thread_id,
        "message_id": raised.message.message_id,
        "chain": traced,
    }


def _block(picture: Picture, raised: Alarm, owner: str | None, text: str, told: list[str]) -> None:
    """Block the thread, with an entry that says why, as every change of status has one.  Who owns it already stays."""
    thread, message = raised.thread, raised.message
    owner = thread.escalation_owner or owner
    blocked = _replace(thread, status=str(Status.BLOCKED), escalation_owner=owner)
    picture.put_thread(blocked)
    about = {
        "event": "guard_fired" if thread.status == Status.BLOCKED else "status_changed",
        "from": thread.status,
        "to": str(Status.BLOCKED),
        "reason": raised.code,
        "escalation_owner": owner,
        "override": False,
        "guard": raised.code,
        "message_id": message.message_id,
    }
    body = f"{text}\nThe thread is blocked until {owner or 'a human'} or an override unblocks it."
    entry_id = derived(message.message_id, f"{raised.code} entry")
    # It comes from what made the guard fire: who reads it and goes on does not begin anew.
    entry.write_system(picture, blocked, entry_id, SYSTEM, body, told, about, chain=message.chain)


def _advice(raised: Alarm, text: str) -> str:
    thread_id = raised.thread.thread_id
    return (
        f"{text}\nThe thread {thread_id} is blocked. Look: wakeline thread summary {thread_id}. "
        f"Let it go on: wakeline thread status {thread_id} active."
    )
