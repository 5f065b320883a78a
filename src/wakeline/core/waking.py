"""May this wake ring now?  Facts in, verdict out.

Wake policy says when, presence says whether a session may be disturbed, the route says how, and quiet hours, budget and
context say not yet.  Safety questions fail closed: a session of which nothing is known is not disturbed.  Nothing that
is not rung is forgotten: it is held with a reason that ends, or left for the receiver's next turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

import msgspec

from wakeline.core.instant import SECOND, plus
from wakeline.core.message import Box, Receipt, WakePolicy
from wakeline.core.session import Presence
from wakeline.core.subscription import SubscriptionStatus, Target
from wakeline.core.thread import Status, Thread
from wakeline.core.wake import Wake


class Why(StrEnum):
    # holds
    QUIET = "quiet_hours"
    BUDGET = "wake_budget"
    DEGRADED = "subscription_degraded"
    THREAD_BLOCKED = "thread_blocked"
    CONTEXT = "context_limit"
    OUTSTANDING = "wake_outstanding"
    UNKNOWN = "presence_unknown"
    APPROVAL = "waiting_on_approval"
    TYPING = "user_typing"
    ACTIVE = "turn_active"
    NO_CONNECTION = "no_connection"
    FAILED = "delivery_failed"
    NO_ROUTE = "no_route"
    NO_SESSION = "no_session"
    NO_BRIDGE = "no_bridge"
    UNPROVEN = "route_unproven"
    UNSURE = "outcome_unknown"
    REFUSED = "session_refused"
    # left for the next turn
    POLICY = "next_turn"
    TOO_OLD = "too_old"
    # dropped
    SILENT = "silent"
    READ = "already_read"
    EXPIRED = "expired"
    RETRACTED = "retracted"
    SUPERSEDED = "superseded"
    GONE = "message_gone"
    UNSUBSCRIBED = "unsubscribed"


class WakeRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that waking goes by."""

    coalesce_seconds: int = 30
    coalesce_cap_seconds: int = 300
    wake_age_seconds: int = 3600
    wake_budget_per_hour: int = 60
    context_gate_tokens: int = 250_000
    presence_stale_seconds: int = 300
    outstanding_seconds: int = 300
    supervisor_seconds: int = 30
    lease_seconds: int = 30
    repoke_seconds: int = 900
    repoke_limit: int = 2


@dataclass(frozen=True, slots=True)
class Ring:
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    why: Why
    until: int | None = None  # None: until something happens that the waker hears of


@dataclass(frozen=True, slots=True)
class Leave:
    why: Why


@dataclass(frozen=True, slots=True)
class Drop:
    why: str


Verdict = Ring | Hold | Leave | Drop


@dataclass(frozen=True, slots=True)
class Seat:
    """The session that would be woken, as far as the decision must know it."""

    session_id: str
    presence: Presence
    proven: bool  # an idle wake has been proven for this harness and version
    queues: bool  # what arrives in a turn is queued by the harness, not typed into it
    context_full: bool
    outstanding_until: int | None
    bridged: bool = True  # its host has a bridge that would ring
    seen_at: int = 0  # when its presence was last reported


@dataclass(frozen=True, slots=True)
class Circumstances:
    target: str
    status: str
    receipt: Receipt | None
    thread: Thread | None
    seat: Seat | None
    quiet_until: int | None
    connected: bool  # the receiver has a connection to this node that would tell of it
    age_limit: timedelta


def decide_wake(wake: Wake, facts: Circumstances, now: int) -> Verdict:
    """An age limit holds only for what was tried and failed: what nobody could bring out before is still news."""
    stale = is_over(wake, facts.receipt, now)
    if stale is not None:
        return Drop(stale)
    if facts.status == SubscriptionStatus.DEGRADED:
        return Hold(Why.DEGRADED)
    if facts.target in (Target.DISABLED, Target.NONE):
        return Hold(Why.NO_ROUTE)
    if wake.policy == WakePolicy.NEXT_TURN:
        return Leave(Why.POLICY)
    if wake.reason == Why.FAILED and plus(wake.occurred_at, facts.age_limit) < now:
        return Leave(Why.TOO_OLD)
    if wake.reason == Why.FAILED and _waits(wake, now):
        return Hold(Why.FAILED, wake.until)
    return _disturb(wake, facts, now)


def _waits(wake: Wake, now: int) -> bool:
    """Not if it was told so in the future: then the clock was set back, and its time means nothing."""
    return wake.updated_at <= now < (wake.until or 0)


def is_over(wake: Wake, receipt: Receipt | None, now: int) -> str | None:
    """Why this wake needs no ring any more."""
    if wake.policy == WakePolicy.SILENT:
        return Why.SILENT
    if wake.message_id is None:
        return None
    if receipt is None:
        return Why.GONE
    if receipt.box == Box.LAPSED:
        return receipt.lapsed or Why.EXPIRED
    if receipt.box != Box.UNREAD:
        return Why.READ
    if receipt.expires_at is not None and receipt.expires_at <= now:
        return Why.EXPIRED
    return None


def _disturb(wake: Wake, facts: Circumstances, now: int) -> Verdict:
    thread = facts.thread
    if facts.quiet_until is not None:
        return Hold(Why.QUIET, facts.quiet_until)
    if thread is not None and thread.status == Status.BLOCKED and thread.escalation_owner != wake.handle:
        return Hold(Why.THREAD_BLOCKED)
    if facts.target == Target.MCP and not facts.connected:
        return Hold(Why.NO_CONNECTION)
    return _sit_down(wake, facts.seat, now) if facts.target == Target.BRIDGE else Ring()


# What presence says to a harness that does not queue; `idle` rings.
_PRESENCE: dict[Presence, Why] = {
    Presence.UNKNOWN: Why.UNKNOWN,
    Presence.ACTIVE: Why.ACTIVE,
    Presence.WAITING_ON_APPROVAL: Why.APPROVAL,
    Presence.USER_TYPING: Why.TYPING,
}


MOST_UNSURE_RINGS = 2  # the first, and one more
LONG_UNHEARD = 30 * 60 * SECOND


REBUFFED = (Why.REFUSED, Why.NO_CONNECTION)


def _sit_down(wake: Wake, seat: Seat | None, now: int) -> Verdict:
    if wake.unsure_at is not None and wake.rings >= MOST_UNSURE_RINGS:
        return Leave(Why.UNSURE)
    if seat is None:
        return Hold(Why.NO_SESSION)
    if not seat.proven:
        return Hold(Why.UNPROVEN)
    if not seat.bridged:
        return Hold(Why.NO_BRIDGE)
    if seat.context_full:
        return Hold(Why.CONTEXT)
    return _approach(wake, seat, now)


def _approach(wake: Wake, seat: Seat, now: int) -> Verdict:
    """There is a way into this session: may it be taken now?"""
    if seat.outstanding_until is not None:
        return Hold(Why.OUTSTANDING, seat.outstanding_until)
    if wake.reason in REBUFFED and _waits(wake, now) and _is_unheard(wake, seat):
        return Hold(Why(wake.reason), wake.until)  # nothing was heard of it since it said no
    if wake.unsure_at is not None and not _is_idle_since(seat, wake.unsure_at, now):
        return Hold(Why.UNSURE)
    return Ring(seat.session_id) if may_disturb(seat.presence, queues=seat.queues) else Hold(_PRESENCE[seat.presence])


def _is_unheard(wake: Wake, seat: Seat) -> bool:
    """Is it still the session that did not take it, and has nothing been heard of it since?"""
    return wake.session_id in (None, seat.session_id) and seat.seen_at <= wake.updated_at


def poke_at(wake: Wake, rules: WakeRules, now: int, *, failed: bool) -> int | None:
    """When to see whether mail that was rung for is still unread: soon if the turn with its doorbell failed.

    None: it is no mail, or it has rung often enough.  What was to be looked at before that still is.
    """
    if wake.message_id is None or wake.rings > rules.repoke_limit:
        return None
    due = now + (rules.supervisor_seconds if failed else rules.repoke_seconds) * SECOND
    return due if wake.poke_at is None else min(due, wake.poke_at)


def latest_poke(rules: WakeRules, now: int) -> int:
    """No poke of a clock that was never set back is due later than this."""
    return now + max(rules.supervisor_seconds, rules.repoke_seconds) * SECOND


def _is_idle_since(seat: Seat, instant: int, now: int) -> bool:
    """Was it seen idle after that?  What had been rung before would have begun a turn by then.

    An instant in the future is of a clock that was set back.  What was seen since then lies so far behind it that
    nobody would have rung in a session of which this was the last that had been heard.
    """
    since = seat.seen_at <= now < instant and instant - seat.seen_at > LONG_UNHEARD
    return seat.presence == Presence.IDLE and (seat.seen_at > instant or since)


def may_disturb(presence: Presence, *, queues: bool) -> bool:
    return presence == Presence.IDLE or (presence == Presence.ACTIVE and queues)
