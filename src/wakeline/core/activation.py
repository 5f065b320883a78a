"""Activation: may a dormant agent be brought back, and how?  Facts in, verdict out.

Mail for an agent of which nothing is heard is first brought the ordinary way, a few times, more and more slowly: that
is `trigger`, and costs nothing.  Only where a human has said so is a process started: `resume` continues the latest
session that can be resumed, `spawn` begins a new one.  Every attempt is a row; every reason not to try is a word.
None of it is a delivery, and none of it counts as a wake of a running session.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from wakeline.core.instant import SECOND

LONGEST_PAUSE = 3_600 * SECOND
CLAIM_SECONDS = 60  # for a bridge to start what it has claimed
GRACE_SECONDS = 60  # beyond the time that a process has, for telling what came of it


class Way(StrEnum):
    TRIGGER = "trigger"
    RESUME = "resume"
    SPAWN = "spawn"


class Result(StrEnum):
    TRIGGERED = "triggered"
    ALREADY_ACTIVE = "already_active"
    FAILED = "failed"
    RESUMED = "fallback_resumed"
    SPAWNED = "fallback_spawned"


class Allowed(StrEnum):
    """What a human lets us do for an agent.  Who may begin a new session may also continue one."""

    NONE = "none"
    RESUME = "resume"
    SPAWN = "spawn"


class Idle(StrEnum):
    """Why nothing is started now."""

    READ = "already_read"
    AWAKE = "already_active"
    FRESH = "read_lag"
    QUIET = "quiet_hours"
    BACKOFF = "backing_off"
    RINGING = "wake_outstanding"
    NOT_ALLOWED = "not_allowed"
    CRASH_LOOP = "crash_loop"
    STOPPED = "stopped"
    UNDER_WAY = "under_way"
    AGENT_BUSY = "agent_concurrency"
    WORKSPACE_BUSY = "workspace_concurrency"
    RATE = "activation_rate"
    NO_BRIDGE = "no_bridge"
    NOT_RESUMABLE = "nothing_resumable"
    NO_PLACE = "no_place"


class ActivationRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that activation goes by."""

    dormant_seconds: int = 900
    activation_lag_seconds: int = 120
    activation_tries: int = 3
    activation_backoff_seconds: int = 60
    activation_seconds: int = 1800
    activation_concurrency: int = 4
    activation_per_hour: int = 12
    activation_failure_limit: int = 3


class Activation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One attempt.  Without a result it is open: planned, claimed by a bridge, or running."""

    activation_id: str
    workspace_id: int
    handle: str
    way: str
    session_id: str | None  # the one to continue, and then the one that its harness says it works in
    host: str | None
    thread_id: str | None  # of the first message that it is for
    message_id: str | None
    log_id: int  # mail up to here is covered by it
    attempt: int
    result: str | None
    reason: str | None
    lease_owner: str | None
    lease_until: int | None
    fence: int  # grows with every claim; what was claimed under an older one changes nothing
    pid: int | None  # the leader of its process group
    pid_started_at: int | None
    exit_status: int | None
    output: str | None  # the end of what it printed
    stop_asked_by: str | None
    created_at: int
    started_at: int | None = None
    settled_at: int | None = None


class Mandate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a human allows for one agent.  Without one, nothing is ever started."""

    workspace_id: int
    handle: str
    allow: str
    max_per_hour: int
    concurrency: int
    command: str | None  # JSON list: the operator's own command, instead of the harness's
    harness: str | None  # for a new session; else as the latest one had it
    host: str | None
    cwd: str | None
    changed_by: str
    changed_at: int


class Dormancy(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far we have come with an agent that leaves its mail unread."""

    workspace_id: int
    handle: str
    message_id: str | None  # the first unread message; when it is read, counting begins again
    tries: int  # ordinary wakes since then
    unreachable: int  # the last of them found no way in
    failures: int  # processes in a row that brought nothing
    last_way: str | None  # of the last process that brought nothing
    next_at: int
    reason: str | None
    stopped_at: int | None  # by the crash-loop limit or by a human; only a human lets it go on
    updated_at: int


def undisturbed(workspace_id: int, handle: str) -> Dormancy:
    return Dormancy(workspace_id, handle, None, 0, 0, 0, None, 0, None, None, 0)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process would be started: on a host, and whether a bridge there would do it."""

    host: str
    attended: bool
    session_id: str | None = None  # the session to continue


@dataclass(frozen=True, slots=True)
class Situation:
    unread_since: int | None  # of the first message that wants to wake; None: all is read
    awake: bool  # a session of the agent has shown life
    quiet_until: int | None
    ringing: bool  # an ordinary wake is under way
    dormancy: Dormancy
    mandate: Mandate | None
    covered: bool  # an open attempt is for this mail already
    of_agent: int  # open attempts that are or become processes
    of_workspace: int
    rate_until: int | None  # when the next one may be started; None: now
    resume: Place | None
    spawn: Place | None


@dataclass(frozen=True, slots=True)
class Stand:
    why: Idle
    until: int | None = None  # None: until something changes


@dataclass(frozen=True, slots=True)
class Trigger:
    pass


@dataclass(frozen=True, slots=True)
class Launch:
    way: Way
    place: Place


Verdict = Stand | Trigger | Launch


def decide_activation(facts: Situation, rules: ActivationRules, now: int) -> Verdict:
    waits = _wait(facts, rules, now)
    if waits is not None:
        return waits
    dormancy = facts.dormancy
    if not dormancy.unreachable and dormancy.tries < rules.activation_tries:
        return Trigger()
    return _limit(facts, rules) or _choose(facts)


def _wait(facts: Situation, rules: ActivationRules, now: int) -> Stand | None:
    """Reasons not to try anything just now."""
    if facts.unread_since is None:
        return Stand(Idle.READ)
    if facts.awake:
        return Stand(Idle.AWAKE)
    due = facts.unread_since + rules.activation_lag_seconds * SECOND
    if due > now:
        return Stand(Idle.FRESH, due)
    if facts.quiet_until is not None:
        return Stand(Idle.QUIET, facts.quiet_until)
    if facts.dormancy.next_at > now:
        return Stand(Idle.BACKOFF, facts.dormancy.next_at)
    return Stand(Idle.RINGING) if facts.ringing else None


def _limit(facts: Situation, rules: ActivationRules) -> Stand | None:
    """Reasons not to start a process."""
    mandate = facts.mandate
    if mandate is None or mandate.allow == Allowed.NONE:
        return Stand(Idle.NOT_ALLOWED)
    if facts.dormancy.stopped_at is not None:
        return Stand(Idle.CRASH_LOOP if facts.dormancy.failures >= rules.activation_failure_limit else Idle.STOPPED)
    if facts.covered:
        return Stand(Idle.UNDER_WAY)
    if facts.of_agent >= mandate.concurrency:
        return Stand(Idle.AGENT_BUSY)
    if facts.of_workspace >= rules.activation_concurrency:
        return Stand(Idle.WORKSPACE_BUSY)
    return None if facts.rate_until is None else Stand(Idle.RATE, facts.rate_until)


def _choose(facts: Situation) -> Stand | Launch:
    """A session that could not be continued just now is not tried again where a new one may be begun."""
    may_spawn = facts.mandate is not None and facts.mandate.allow == Allowed.SPAWN and facts.spawn is not None
    way, place = Way.RESUME, facts.resume
    if may_spawn and (place is None or facts.dormancy.last_way == Way.RESUME):
        way, place = Way.SPAWN, facts.spawn
    if place is None:
        allowed = facts.mandate.allow if facts.mandate is not None else Allowed.NONE
        return Stand(Idle.NO_PLACE if allowed == Allowed.SPAWN else Idle.NOT_RESUMABLE)
    return Launch(way, place) if place.attended else Stand(Idle.NO_BRIDGE)


def pause(tries: int, rules: ActivationRules) -> int:
    """How long to wait after this many tries: twice as long each time, within an hour."""
    doubled = rules.activation_backoff_seconds * SECOND * 2 ** min(max(tries - 1, 0), 20)
    return int(min(doubled, LONGEST_PAUSE))
