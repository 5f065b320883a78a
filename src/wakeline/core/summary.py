"""Summarise a thread without a model: who spoke, what is still asked, what was decided, how much there is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from wakeline import wire

MOST = 10
_TEXT = 200
_decision = re.compile(r"^\s*(decision|decided|agreed)\s*[:\-]", re.IGNORECASE)


def is_question(view: wire.MessageView) -> bool:
    return view.kind == "chat" and view.state == "current" and view.body.rstrip().endswith("?")


def is_decision(view: wire.MessageView) -> bool:
    if view.state != "current":
        return False
    if view.kind == "system":
        return (view.metadata or {}).get("event") == "status_changed"
    return "decision" in view.tags or _decision.match(view.body) is not None


def open_questions(views: Sequence[wire.MessageView]) -> list[wire.MessageView]:
    """Questions that nobody but their sender has replied to."""
    senders = {view.message_id: view.sender for view in views}
    answered = {
        view.in_reply_to
        for view in views
        if view.in_reply_to is not None and senders.get(view.in_reply_to) != view.sender
    }
    return [view for view in views if is_question(view) and view.message_id not in answered]


def short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT else line[: _TEXT - 1] + "…"


def _pointer(view: wire.MessageView) -> dict[str, Any]:
    return {"message_id": view.message_id, "seq": view.seq, "sender": view.sender, "text": short(view.body)}


def summarise(
    thread: wire.ThreadView, members: Sequence[wire.MemberView], views: Sequence[wire.MessageView]
) -> wire.ThreadSummary:
    counts = Counter(view.sender for view in views)
    read = {member.handle: member.last_read_seq for member in members}
    names = sorted({*read, *counts}, key=lambda handle: (-counts[handle], handle))
    participants = [
        wire.ParticipantSummary(handle=handle, messages=counts[handle], last_read_seq=read.get(handle, 0))
        for handle in names
    ]
    questions = [wire.OpenQuestion(**_pointer(view)) for view in open_questions(views)[-MOST:]]
    decisions = [wire.Decision(**_pointer(view)) for view in views if is_decision(view)][-MOST:]
    return wire.ThreadSummary(
        thread_id=thread.thread_id,
        title=thread.title,
        type=thread.type,
        status=thread.status,
        messages=thread.last_seq,
        summarised_from_seq=views[0].seq if views else 0,
        participants=participants,
        open_questions=questions,
        decisions=decisions,
        first_at=views[0].created_at if views else None,
        last_at=views[-1].created_at if views else None,
        text=_text(thread, participants, questions, decisions),
    )


def _text(
    thread: wire.ThreadView,
    participants: Sequence[wire.ParticipantSummary],
    questions: Sequence[wire.OpenQuestion],
    decisions: Sequence[wire.Decision],
) -> str:
    who = ", ".join(f"{one.handle} ({one.messages})" for one in participants)
    lines = [f"{thread.title}: {thread.type}, {thread.status}, {thread.last_seq} messages.", f"Participants: {who}."]
    lines += [f"Open question from {one.sender} (#{one.seq}): {one.text}" for one in questions]
    lines += [f"Decision by {one.sender} (#{one.seq}): {one.text}" for one in decisions]
    return "\n".join(lines)
