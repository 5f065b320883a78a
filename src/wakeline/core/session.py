"""Sessions: running or resumable harness instances of an agent, and what may be concluded from what they said.

What a session said of itself is stored as it was said; what it is worth now depends on the moment, so that is decided
here, each time it is asked.  Durations are microseconds, as instants are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec


class Presence(StrEnum):
    UNKNOWN = "unknown"
    IDLE = "idle"
    ACTIVE = "active"
    WAITING_ON_APPROVAL = "waitingOnApproval"
    USER_TYPING = "userTyping"


REPEATED = "repeated"  # the source of a presence that nobody saw: what the session last said, said once more


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
    harness_version: str | None = None
    transport: str | None = None  # which of the ways into its harness it can be reached by
    said_levels: str = "{}"  # JSON: what it said of itself; `levels` is what was proven, and not more than this


class Liveness(StrEnum):
    LIVE = "live"
    DEAD = "dead"
    UNCERTAIN = "uncertain"


# A look at a process id on this host: is there such a process, and if it can be told, since when.
Sighting = tuple[bool, int | None]

# Start times are counted in ticks since a boot time that is known to the second; two readings may differ by that.
START_TOLERANCE = 2_000_000


def presence_of(session: Session, now: int, stale_after: int) -> Presence:
    """What may be taken for its presence: what it last said, unless that is too old or it has ended."""
    if session.ended_at is not None or now - session.presence_at >= stale_after:
        return Presence.UNKNOWN
    return Presence(session.presence)


def is_beating(session: Session, now: int, stale_after: int) -> bool:
    return session.ended_at is None and now - session.heartbeat_at < stale_after


def is_dormant(session: Session, now: int, dormant_after: int) -> bool:
    """Nothing was heard of it for so long that only waking it by other means helps."""
    return not is_beating(session, now, dormant_after)


def liveness(session: Session, sighting: Sighting | None) -> Liveness:
    """Is the session's process still there?  `sighting` is None when nobody could look: it is on another host."""
    if session.ended_at is not None:
        return Liveness.DEAD
    if session.pid is None or sighting is None:
        return Liveness.UNCERTAIN
    exists, started_at = sighting
    if not exists:
        return Liveness.DEAD
    if started_at is None or session.pid_started_at is None:
        return Liveness.UNCERTAIN  # there is a process of this number, but the number may have been given again
    same = abs(started_at - session.pid_started_at) <= START_TOLERANCE
    return Liveness.LIVE if same else Liveness.DEAD


def exceeds_context(session: Session, default_limit: int) -> bool:
    """Has it used more context than its limit?  One that does not say how much has not."""
    limit = default_limit if session.context_limit is None else session.context_limit
    return session.context_tokens is not None and session.context_tokens > limit


def latest_resumable(sessions: Iterable[Session]) -> Session | None:
    """The one to continue, ended or not: of those that can be resumed, the last that was heard of."""
    resumable = (session for session in sessions if session.resumable)
    return max(resumable, key=lambda one: (one.heartbeat_at, one.session_id), default=None)


def choose_session(
    sessions: Sequence[Session],
    wanted: str | None,
    addressed: bool,  # noqa: FBT001 - a fact among facts
    now: int,
    stale_after: int,
) -> Session | None:
    """Which of an agent's sessions to wake.  `wanted` was addressed, or else is the one that last acted in the thread.

    An addressed session is never replaced by another.  Otherwise: the one that last acted, if it still beats; else the
    newest idle one that beats; else the newest that beats, for whose turn to end the planner can wait.
    """
    named = next((one for one in sessions if one.session_id == wanted and one.ended_at is None), None)
    if addressed or (named is not None and is_beating(named, now, stale_after)):
        return named
    beating = [one for one in sessions if is_beating(one, now, stale_after)]
    idle = [one for one in beating if presence_of(one, now, stale_after) is Presence.IDLE]
    # By their start: heartbeats come in turns, and the choice must not change with every one of them.
    return max(idle or beating, key=lambda one: (one.started_at, one.session_id), default=None)
