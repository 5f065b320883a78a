"""Summarise a thread without a model: who spoke, what is still asked, what was decided, how much there is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from wakeline import wire
from wakeline.core.instant import to_datetime
from wakeline.core.summary_queries import Voice

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


def short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT else line[: _TEXT - 1] + "…"


def _pointer(view: wire.MessageView) -> dict[str, Any]:
    return {"message_id": view.message_id, "seq": view.seq, "sender": view.sender, "text": short(view.body)}


def summarise(
    thread: wire.ThreadView,
    members: Sequence[wire.MemberView],
    voices: Sequence[Voice],
    unanswered: Sequence[wire.MessageView],
    decisive: Sequence[wire.MessageView],
) -> wire.ThreadSummary:
    """`unanswered` and `decisive` hold the newest, in their order, of what may be open and may be a decision."""
    counts = Counter({voice.sender: voice.messages for voice in voices})
    read = {member.handle: member.last_read_seq for member in members}
    names = sorted({*read, *counts}, key=lambda handle: (-counts[handle], handle))
    participants = [
        wire.ParticipantSummary(handle=handle, messages=counts[handle], last_read_seq=read.get(handle, 0))
        for handle in names
    ]
    questions = [wire.OpenQuestion(**_pointer(view)) for view in unanswered if is_question(view)][-MOST:]
    decisions = [wire.Decision(**_pointer(view)) for view in decisive if is_decision(view)][-MOST:]
    return wire.ThreadSummary(
        thread_id=thread.thread_id,
        title=thread.title,
        type=thread.type,
        status=thread.status,
        messages=thread.last_seq,
        summarised_from_seq=min((voice.first_seq for voice in voices), default=0),
        participants=participants,
        open_questions=questions,
        decisions=decisions,
        first_at=to_datetime(min(voice.first_at for voice in voices)) if voices else None,
        last_at=to_datetime(max(voice.last_at for voice in voices)) if voices else None,
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
