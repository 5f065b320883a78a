"""Stage 2, match: the log rows that concern subscriptions become wakes, in the transaction that moves the cursor.

Reading the log and looking up subscriptions happens outside; this command only takes what was found.  It ignores every
row that the stored cursor has passed, so any node may match and a row is never matched twice, also not after a crash.
A subscription whose first event this is rings in the same transaction: no second commit stands between an event and
its wake.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from wakeline.core import coalescing
from wakeline.core.message import WakePolicy
from wakeline.core.picture import Needs, Picture
from wakeline.core.records import Consumer
from wakeline.core.subscription import Subscription, SubscriptionStatus
from wakeline.core.wake import Wake, WakeState
from wakeline.core.waking import WakeRules, Why
from wakeline.flow import evidence
from wakeline.flow.plan import Planned, Stamp, plan, window_of

_replace = msgspec.structs.replace

CONSUMER = "matcher"


class Found(msgspec.Struct, frozen=True):
    """One event that one subscription asked for."""

    subscription_id: str
    log_id: int
    handle: str
    event_type: str
    policy: str | None  # None: the subscription's
    payload: str
    occurred_at: int
    session_id: str | None = None
    addressed: bool = False
    message_id: str | None = None
    thread_id: str | None = None
    seq: int | None = None


class Match(msgspec.Struct, frozen=True):
    workspace_id: int
    until: int | None  # every row up to here was looked at; None: at once, and the cursor stays where it is
    found: tuple[Found, ...]
    again: tuple[str, ...]  # subscriptions whose holds may have ended
    quiet: frozenset[str]  # subscriptions that cannot ring now: what they hold need not be loaded
    rules: WakeRules
    stamp: Stamp
    seatless: frozenset[str] = frozenset()  # subscriptions that are known to ring in no session

    def needs(self, needs: Needs) -> None:
        if self.until is not None:
            needs.consumers.add(CONSUMER)
        found = {event.subscription_id for event in self.found}
        needs.subscriptions.update(found & self.quiet)
        evidence.need_plans(needs, (found - self.quiet) | set(self.again), seatless=self.seatless)
        # The first events of a subscription are not stored yet, so their receipts are asked for by name.
        if self.until is not None:  # else they were written just now
            needs.receipts.update(
                (event.message_id, event.handle) for event in self.found if event.message_id is not None
            )

    def decide(self, picture: Picture) -> list[Planned]:
        before = picture.consumers.get(CONSUMER)
        passed = before.last_log_id if before is not None else 0
        fresh = [event for event in self.found if event.log_id > passed]
        waiting = {event.subscription_id for event in fresh if self._queue(picture, event)}
        if self.until is not None and self.until > passed:
            picture.put_consumer(Consumer(self.workspace_id, CONSUMER, self.until))
        due = [one for one in waiting if self._is_due(picture, one)]
        planned = [plan(picture, one, self.rules, self.stamp) for one in dict.fromkeys([*due, *self.again])]
        return [one for one in planned if one is not None]

    def _queue(self, picture: Picture, event: Found) -> bool:
        """Make the wake.  Answers whether it waits to be rung."""
        subscription = picture.subscriptions.get(event.subscription_id)
        if subscription is None or not _wants(subscription, event):
            return False
        policy = event.policy or subscription.wake_policy
        if policy == WakePolicy.SILENT:
            return False
        later = policy == WakePolicy.NEXT_TURN
        picture.put_wake(new_wake(picture, event, policy, later=later))
        counted = _replace(subscription, events=subscription.events + 1)
        picture.move_subscription_tail(counted if later else self._timed(picture, counted))
        return not later

    def _timed(self, picture: Picture, subscription: Subscription) -> Subscription:
        """With the instant at which the planner has to look at it."""
        now, first = picture.now, subscription.first_queued_at or picture.now
        cap = timedelta(seconds=self.rules.coalesce_cap_seconds)
        due = coalescing.due_at(subscription.rung_at, first, window_of(subscription, self.rules), cap, now)
        flush_at = due if subscription.flush_at is None else min(due, subscription.flush_at)
        return _replace(subscription, first_queued_at=first, flush_at=flush_at)

    def _is_due(self, picture: Picture, subscription_id: str) -> bool:
        """Only what was loaded whole can be planned here; the timer finds the others."""
        flush_at = picture.subscriptions[subscription_id].flush_at
        return subscription_id not in self.quiet and flush_at is not None and flush_at <= picture.now


def _wants(subscription: Subscription, event: Found) -> bool:
    return subscription.status != SubscriptionStatus.RETIRED and event.log_id > subscription.from_log_id


def new_wake(picture: Picture, event: Found, policy: str, *, later: bool = False) -> Wake:
    return Wake(
        subscription_id=event.subscription_id,
        log_id=event.log_id,
        workspace_id=picture.workspace.workspace_id,
        handle=event.handle,
        session_id=event.session_id,
        addressed=int(event.addressed),
        event_type=event.event_type,
        policy=policy,
        message_id=event.message_id,
        thread_id=event.thread_id,
        seq=event.seq,
        payload=event.payload,
        occurred_at=event.occurred_at,
        state=WakeState.NEXT_TURN if later else WakeState.WAITING,
        reason=str(Why.POLICY) if later else None,
        until=None,
        delivery_id=None,
        updated_at=picture.now,
    )


class Flush(msgspec.Struct, frozen=True):
    """Plan these subscriptions: their time has come, or something that held them may have ended."""

    workspace_id: int
    subscription_ids: tuple[str, ...]
    rules: WakeRules
    stamp: Stamp

    def needs(self, needs: Needs) -> None:
        evidence.need_plans(needs, self.subscription_ids)

    def decide(self, picture: Picture) -> list[Planned]:
        planned = [plan(picture, one, self.rules, self.stamp) for one in self.subscription_ids]
        return [one for one in planned if one is not None]
