"""Messages as a reader sees them, for decisions that read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from wakeline import wire

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def view(seq: int, body: str = "hello", sender: str = "@alice", **fields: Any) -> wire.MessageView:
    """Message `seq` of a thread; its id is `m<seq>`."""
    given: dict[str, Any] = {
        "message_id": f"m{seq}",
        "thread_id": "t",
        "seq": seq,
        "log_id": seq,
        "sender": sender,
        "kind": "chat",
        "subject": None,
        "body": body,
        "to": ["@bob"],
        "priority": "normal",
        "wake_policy": "immediate",
        "tags": [],
        "in_reply_to": None,
        "expires_at": None,
        "supersedes": None,
        "superseded_by": None,
        "retracted_at": None,
        "metadata": None,
        "schema_version": 1,
        "created_at": NOON + timedelta(seconds=seq),
        "state": "current",
    }
    return wire.MessageView(**{**given, **fields})
