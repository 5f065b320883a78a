"""Sessions: running or resumable harness instances of an agent, and what is known of their presence."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Presence(StrEnum):
    UNKNOWN = "unknown"
    IDLE = "idle"
    ACTIVE = "active"
    WAITING_ON_APPROVAL = "waitingOnApproval"
    USER_TYPING = "userTyping"


class WakeMode(StrEnum):
    SOCKET = "socket"
    FILE_WATCH = "file-watch"
    NATIVE_PUSH = "native-push"
    APP_SERVER = "app-server"
    PIGGYBACK = "piggyback"
    NONE = "none"


class Session(msgspec.Struct, frozen=True, array_like=True, gc=False):
    session_id: str
    workspace_id: int
    handle: str
    harness: str
    native_id: str | None
    host: str | None
    cwd: str | None
    pid: int | None
    pid_started_at: int | None
    wake_mode: str
    replyable: int
    capabilities: str  # JSON list
    levels: str  # JSON: level → "pass" | "partial" | "fail" | …
    presence: str
    active_turn_id: str | None
    presence_source: str
    presence_at: int
    context_tokens: int | None
    context_limit: int | None
    resumable: int
    task_id: str | None
    branch: str | None
    started_at: int
    heartbeat_at: int
    ended_at: int | None = None


def presence_of(session: Session, now: int, stale_after: int) -> Presence:
    stale = session.presence_at + stale_after * 1_000_000 < now
    return Presence.UNKNOWN if stale else Presence(session.presence)


def choose_session(
    sessions: Sequence[Session], wanted: str | None, addressed: bool, now: int, stale_after: int
) -> Session | None:
    by_id = {session.session_id: session for session in sessions if session.ended_at is None}
    if wanted in by_id or addressed:
        return by_id.get(wanted or "")
    ranked = sorted(
        by_id.values(),
        key=lambda session: (presence_of(session, now, stale_after) == Presence.IDLE, session.heartbeat_at),
    )
    return ranked[-1] if ranked else None
