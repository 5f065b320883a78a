"""Register a callback, as the draft MCP Events has it: make the subscription, renew it, and find what it missed.

A callback is a wake subscription to a webhook with a key that its owner brought and, mostly, an end.  Whoever owns the
URL is asked between two tries (`service/callbacks.py`): the first makes nothing where nobody has answered yet.  What
came before the callback is found in a step of its own, because it can only be looked for once the matcher knows the
callback and will miss nothing later.  Until that is done the callback says so (`replay_after`), and whoever renews it
does it.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from wakeline.core import policy
from wakeline.core.allowance import bucket_name, take_wake
from wakeline.core.instant import SECOND, plus
from wakeline.core.message import WakePolicy
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.subscription import (
    Callback,
    Filters,
    Metadata,
    Subscription,
    SubscriptionStatus,
    Target,
    Trigger,
    callback_of,
    to_json,
)
from wakeline.core.wake import Wake, WakeState
from wakeline.errors import RateLimited
from wakeline.flow import evidence
from wakeline.flow.match import CONSUMER, Found, new_wake
from wakeline.flow.plan import confirmed_to, open_deliveries, open_wakes
from wakeline.flow.subscribe import Route, create, new, record, require_room

_replace = msgspec.structs.replace


class Registered(msgspec.Struct, frozen=True):
    subscription: Subscription
    epoch: str
    confirmed: int  # the log id after which a client may resume
    was: str | None = None  # its status before; None: it was not there


class RegisterCallback(msgspec.Struct, frozen=True):
    """Answers None where the URL's owner must be asked first."""

    caller: Caller
    subscription_id: str
    url: str
    sealed_key: str
    same_key: bool  # as the one that it has
    overlap: timedelta
    life: timedelta | None  # None: without end
    after: int | None  # replay from this log id; None: from now
    limit: int
    budget: int  # calls in an hour
    verified: bool = False

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.senders.add(bucket_name(self.caller.handle))
        needs.subscriptions_of.add(self.caller.handle)
        needs.subscriptions.add(self.subscription_id)
        evidence.need_plans(needs, [self.subscription_id])
        needs.consumers.add(CONSUMER)

    def decide(self, picture: Picture) -> Registered | None:
        policy.admit(picture, self.caller)
        policy.require_writer(self.caller)
        before = picture.subscriptions.get(self.subscription_id)
        if before is not None and before.status != SubscriptionStatus.RETIRED:
            return registered(picture, self._renew(picture, before), before.status)
        require_room(picture, self.caller.handle, self.limit)
        if self.verified:
            return registered(picture, self._make(picture))
        self._take_ring(picture)
        return None

    def _take_ring(self, picture: Picture) -> None:
        """Asking a stranger costs as much as a wake, so that nobody can be pestered through us."""
        handle, now = self.caller.handle, picture.now
        taken = take_wake(picture.buckets.get(bucket_name(handle)), self.workspace_id, handle, self.budget, now)
        if isinstance(taken, int):
            raise RateLimited(
                "RATE_LIMITED",
                f"{handle} may call {self.budget} times an hour, and has done so.",
                rule="wake_budget_per_hour",
                retry_after_seconds=-(-(taken - now) // SECOND),
            )
        picture.put_bucket(taken)

    def _make(self, picture: Picture) -> Subscription:
        missed = self.after is not None and self.after < picture.last_log_id
        callback = Callback(ends_at=self._end(picture), replay_after=self.after if missed else None)
        route = Route(url=self.url, coalesce_window=0, sealed_key=self.sealed_key, callback=callback)
        handle = self.caller.handle
        row = new(picture, self.subscription_id, handle, Trigger.SENT_TO_ME, Filters(), Target.WEBHOOK, route)
        row = _replace(row, flush_at=callback.ends_at)
        create(picture, row, handle)
        return row

    def _renew(self, picture: Picture, before: Subscription) -> Subscription:
        callback = _replace(callback_of(before) or Callback(), ends_at=self._end(picture))
        row = _replace(
            before if self.same_key else self._with_new_key(picture, before),
            metadata=to_json(Metadata(callback=callback)),
            status=SubscriptionStatus.ACTIVE,
            status_reason=None,
            failures=0,
            flush_at=picture.now,
            updated_at=picture.now,
        )
        picture.put_subscription(row)
        if before.status != row.status:
            record(picture, "resumed", row, row.handle)
        elif not self.same_key:
            record(picture, "changed", row, row.handle)
        return row

    def _with_new_key(self, picture: Picture, before: Subscription) -> Subscription:
        return _replace(
            before,
            signing_key=self.sealed_key,
            previous_key=before.signing_key if self.overlap else None,
            previous_key_until=plus(picture.now, self.overlap) if self.overlap else None,
        )

    def _end(self, picture: Picture) -> int | None:
        return None if self.life is None else plus(picture.now, self.life)


class FillCallback(msgspec.Struct, frozen=True):
    """Queue what came between the client's position and the callback, once."""

    workspace_id: int
    subscription_id: str
    found: tuple[Found, ...]

    def needs(self, needs: Needs) -> None:
        evidence.need_plans(needs, [self.subscription_id])
        needs.wakes.update((self.subscription_id, event.log_id) for event in self.found)
        needs.consumers.add(CONSUMER)

    def decide(self, picture: Picture) -> Registered | None:
        row = picture.subscriptions.get(self.subscription_id)
        callback = None if row is None or row.status == SubscriptionStatus.RETIRED else callback_of(row)
        if row is None or callback is None:
            return None
        if callback.replay_after is None:
            return registered(picture, row)
        wanted = [event for event in self.found if self._is_missing(picture, event)]
        for event in wanted:
            picture.put_wake(new_wake(picture, event, WakePolicy.IMMEDIATE))
        metadata = to_json(Metadata(callback=_replace(callback, replay_after=None)))
        row = _replace(row, metadata=metadata, events=row.events + len(wanted), flush_at=picture.now)
        picture.put_subscription(row)
        return registered(picture, row)

    def _is_missing(self, picture: Picture, event: Found) -> bool:
        """What a former life of the callback brought out comes again: its client says that it does not have it."""
        before = picture.wakes.get((self.subscription_id, event.log_id))
        return event.policy == WakePolicy.IMMEDIATE and (before is None or not _is_open(picture, before))


def _is_open(picture: Picture, wake: Wake) -> bool:
    carried = {delivery.delivery_id for delivery in open_deliveries(picture, wake.subscription_id)}
    return wake.state in (WakeState.WAITING, WakeState.HELD) or wake.delivery_id in carried


def registered(picture: Picture, row: Subscription, was: str | None = None) -> Registered:
    passed = picture.consumers.get(CONSUMER)
    cursor = picture.cursors.get((evidence.consumer_of(row.subscription_id), evidence.STREAM, ""))
    # What was matched at once is ahead of the matcher: what waits shows it, and what was delivered.
    ahead = [wake.log_id for wake in open_wakes(picture, row.subscription_id)]
    ahead += [] if cursor is None else [cursor.last_sequence]
    reached = max(row.from_log_id, 0 if passed is None else passed.last_log_id, *ahead)
    return Registered(row, picture.workspace.epoch, confirmed_to(picture, row, reached), was)
