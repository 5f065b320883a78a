"""Stage 3, plan: which open wakes of a subscription ring now, together, and which wait for what.

It runs in the writer, over the same picture as whatever made it necessary: a match, a settled delivery, a timer, a
change of presence.  So nothing can slip in between looking and deciding: an event that arrives while its queue is being
flushed is either in this round or finds the round done.

One subscription has at most one delivery under way.  That is what keeps its events in order, and it is why a flood
becomes one ring and one digest: what arrives meanwhile gathers.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import msgspec

from wakeline.core import coalescing
from wakeline.core.allowance import bucket_name, take_wake
from wakeline.core.delivery import Delivery, Outcome, Step, is_postponed
from wakeline.core.event import Content, content_of, encode_event
from wakeline.core.ids import derived
from wakeline.core.instant import SECOND
from wakeline.core.message import WakePolicy
from wakeline.core.occurrence import encode_occurrence
from wakeline.core.packed import Packed
from wakeline.core.picture import Picture
from wakeline.core.principal import SYSTEM
from wakeline.core.quiet import quiet_until
from wakeline.core.seat import take_seat
from wakeline.core.session import Session
from wakeline.core.subscription import Subscription, SubscriptionStatus, Target, callback_of, ends_at
from wakeline.core.wake import PLANNED, Wake, WakeState
from wakeline.core.waking import Circumstances, Drop, Hold, Leave, Ring, Verdict, WakeRules, Why, decide_wake
from wakeline.flow import evidence, subscribe
from wakeline.flow.evidence import record
from wakeline.flow.review import review, tell_bridge

_replace = msgspec.structs.replace


class Stamp(msgspec.Struct, frozen=True):
    """Who plans: where new ids come from, and the deliveries that this node takes up at once."""

    seed: str  # a fresh id
    node: str
    claims: frozenset[str] = frozenset()  # targets
    # Of the receivers concerned: (handle, event type) of which a connection to this node would tell.
    connected: frozenset[tuple[str, str]] = frozenset()


class Planned(Packed, frozen=True):
    """A delivery that the planning node has claimed and must now bring out."""

    delivery: Delivery
    subscription: Subscription


def plan(picture: Picture, subscription_id: str, rules: WakeRules, stamp: Stamp) -> Planned | None:
    subscription = picture.subscriptions.get(subscription_id)
    if subscription is None or subscription.status == SubscriptionStatus.RETIRED:
        return None
    for delivery in open_deliveries(picture, subscription_id):
        review(picture, delivery, rules)
    if is_ringing(picture, subscription_id):
        _retime(picture, picture.subscriptions[subscription_id], None)  # its settlement plans again
        return None
    subscription = picture.subscriptions[subscription_id]
    end = ends_at(subscription)
    if end is not None and end <= picture.now:
        retire(picture, subscription, "expired", SYSTEM)
        return None
    verdicts = _decide_all(picture, subscription, rules, stamp.connected)
    ringing = [(wake, verdict.session_id) for wake, verdict in verdicts if isinstance(verdict, Ring)]
    _put_aside(picture, verdicts)
    opens = _opens_at(picture, subscription, rules)
    planned = _ring(picture, subscription, ringing, rules, stamp) if ringing and opens <= picture.now else None
    later = _looks_again(picture, subscription_id, rules)
    if end is not None:
        later.append(end)
    if ringing and opens > picture.now:
        later.append(opens)
    _retime(picture, picture.subscriptions[subscription_id], min(later, default=None))
    return planned


def _looks_again(picture: Picture, subscription_id: str, rules: WakeRules) -> list[int]:
    """The instants at which holds may have ended without anybody telling."""
    waiting = open_wakes(picture, subscription_id)
    later = [wake.until for wake in waiting if wake.until is not None]
    if any(wake.reason == Why.UNSURE for wake in waiting):
        later.append(picture.now + rules.supervisor_seconds * SECOND)  # a session that stays idle makes no news
    return later


def _opens_at(picture: Picture, subscription: Subscription, rules: WakeRules) -> int:
    first = subscription.first_queued_at or picture.now
    cap = timedelta(seconds=rules.coalesce_cap_seconds)
    return coalescing.due_at(subscription.rung_at, first, window_of(subscription, rules), cap, picture.now)


def is_ringing(picture: Picture, subscription_id: str) -> bool:
    return any(not is_postponed(delivery) for delivery in open_deliveries(picture, subscription_id))


def open_deliveries(picture: Picture, subscription_id: str) -> list[Delivery]:
    return [
        delivery
        for delivery in picture.deliveries.values()
        if delivery.subscription_id == subscription_id and delivery.outcome is None
    ]


def open_wakes(picture: Picture, subscription_id: str) -> list[Wake]:
    mine = [
        wake for wake in picture.wakes.values() if wake.subscription_id == subscription_id and wake.state in PLANNED
    ]
    return sorted(mine, key=lambda wake: wake.log_id)


def _decide_all(
    picture: Picture, subscription: Subscription, rules: WakeRules, connected: frozenset[tuple[str, str]]
) -> list[tuple[Wake, Verdict]]:
    owner = picture.principals.get(subscription.handle)
    quiet = quiet_until(owner.quiet, owner.dnd_until, picture.now) if owner is not None else None
    sessions = _sessions_of(picture, subscription.handle) if subscription.target == Target.BRIDGE else []
    return [
        (
            wake,
            decide_wake(
                wake, _circumstances(picture, subscription, wake, sessions, quiet, rules, connected), picture.now
            ),
        )
        for wake in open_wakes(picture, subscription.subscription_id)
    ]


def _circumstances(
    picture: Picture,
    subscription: Subscription,
    wake: Wake,
    sessions: list[Session],
    quiet: int | None,
    rules: WakeRules,
    connected: frozenset[tuple[str, str]],
) -> Circumstances:
    thread_id, seq = wake.thread_id or "", wake.seq or 0
    under_way = picture.deliveries.values()
    seat = take_seat(wake, sessions, under_way, picture.bridges, rules, picture.now) if sessions else None
    return Circumstances(
        target=subscription.target,
        status=subscription.status,
        receipt=picture.receipts.get((thread_id, seq, wake.handle)),
        thread=picture.threads.get(thread_id),
        seat=seat,
        quiet_until=quiet,
        connected=(subscription.handle, wake.event_type) in connected,
        age_limit=timedelta(seconds=rules.wake_age_seconds),
    )


def _sessions_of(picture: Picture, handle: str) -> list[Session]:
    return [session for session in picture.sessions.values() if session.handle == handle and session.ended_at is None]


def _put_aside(picture: Picture, verdicts: Iterable[tuple[Wake, Verdict]]) -> None:
    for wake, verdict in verdicts:
        match verdict:
            case Hold(why, until):
                _put(picture, wake, WakeState.HELD, why, until)
            case Leave(why):
                _put(picture, wake, WakeState.NEXT_TURN, why, None)
            case Drop(reason):
                _put(picture, wake, WakeState.DROPPED, reason, None)
            case Ring():
                pass


def _put(picture: Picture, wake: Wake, state: WakeState, reason: str, until: int | None) -> None:
    if (wake.state, wake.reason, wake.until) != (state, reason, until):
        picture.put_wake(_replace(wake, state=state, reason=reason, until=until, updated_at=picture.now))


def _ring(
    picture: Picture,
    subscription: Subscription,
    ringing: list[tuple[Wake, str | None]],
    rules: WakeRules,
    stamp: Stamp,
) -> Planned | None:
    session_id = ringing[0][1]
    wakes = [wake for wake, seat in ringing if seat == session_id]
    if window_of(subscription, rules) == timedelta(0):
        wakes = wakes[:1]
    allowed = take_wake(
        picture.buckets.get(bucket_name(subscription.handle)),
        subscription.workspace_id,
        subscription.handle,
        rules.wake_budget_per_hour,
        picture.now,
    )
    if isinstance(allowed, int):
        for wake, _ in ringing:
            _put(picture, wake, WakeState.HELD, Why.BUDGET, allowed)
        return None
    picture.put_bucket(allowed)
    return start_delivery(picture, subscription, wakes, session_id, rules, stamp)


def start_delivery(
    picture: Picture,
    subscription: Subscription,
    wakes: list[Wake],
    session_id: str | None,
    rules: WakeRules,
    stamp: Stamp,
) -> Planned | None:
    before = _failed_before(picture, subscription, wakes)
    if before is None:
        delivery = make_delivery(picture, subscription, content_of(wakes), session_id, stamp, alone=wakes[0])
    else:
        delivery = repeat(picture, before, stamp, {"retry_of": before.delivery_id})
    for wake in wakes:
        ringing = _replace(
            wake,
            state=WakeState.RINGING,
            reason=None,
            until=None,
            delivery_id=delivery.delivery_id,
            session_id=session_id or wake.session_id,
            updated_at=picture.now,
            rings=wake.rings + (session_id is not None),
            poke_at=None,
            unsure_at=None,
        )
        picture.put_wake(ringing)
    subscription = _replace(
        subscription,
        rung_at=picture.now,
        first_queued_at=None,
        rings=subscription.rings + 1,
        coalesced=subscription.coalesced + len(wakes) - 1,
        window_used=subscription.window_used + max(0, picture.now - delivery.occurred_at),
    )
    picture.move_subscription_tail(subscription)
    if subscription.target not in stamp.claims:
        return None
    return Planned(claim(picture, delivery, rules, stamp), subscription)


def _failed_before(picture: Picture, subscription: Subscription, wakes: list[Wake]) -> Delivery | None:
    """What failed with exactly these events.  Its receiver may know of them all the same, so they keep their id.

    What a degraded route held is brought out anew when it is resumed.
    """
    before = picture.deliveries.get(wakes[0].delivery_id or "")
    if before is None or before.outcome != Outcome.FAILED or before.events != len(wakes):
        return None
    alike = all(wake.delivery_id == before.delivery_id and wake.reason != Why.DEGRADED for wake in wakes)
    return before if alike and before.target == subscription.target != Target.BRIDGE else None


def repeat(picture: Picture, before: Delivery, stamp: Stamp, detail: dict[str, object]) -> Delivery:
    """A new delivery of the same event, byte by byte."""
    again = _replace(
        before,
        delivery_id=derived(stamp.seed, before.delivery_id),
        step=Step.QUEUED,
        outcome=None,
        reason=None,
        attempts=0,
        next_attempt_at=picture.now,
        lease_owner=None,
        lease_until=None,
        fence=0,
        steps=0,
        created_at=picture.now,
        settled_at=None,
    )
    record(picture, again, Step.QUEUED, detail)
    return picture.deliveries[again.delivery_id]


def make_delivery(
    picture: Picture,
    subscription: Subscription,
    content: Content,
    session_id: str | None,
    stamp: Stamp,
    *,
    replay: bool = False,
    policy: str = "immediate",
    alone: Wake | None = None,  # what a callback is told of: it gets every event by itself
) -> Delivery:
    """Its bytes are written now and never change."""
    delivery_id = event_id = derived(stamp.seed, subscription.subscription_id)
    handle = subscription.handle
    event_type, body = encode_event(event_id, subscription.subscription_id, handle, content, picture.now)
    if alone is not None and callback_of(subscription) is not None:
        event_id = alone.message_id or event_id
        confirmed = confirmed_to(picture, subscription, alone.log_id, but=alone.log_id)
        body = encode_occurrence(alone, picture.workspace.epoch, confirmed)
    delivery = Delivery(
        delivery_id=delivery_id,
        workspace_id=subscription.workspace_id,
        subscription_id=subscription.subscription_id,
        handle=handle,
        session_id=session_id,
        target=subscription.target,
        event_id=event_id,
        event_type=event_type,
        log_id=content.log_id,
        events=content.events,
        body=body,
        replay=int(replay),
        step=Step.QUEUED,
        outcome=None,
        reason=None,
        attempts=0,
        next_attempt_at=picture.now,
        lease_owner=None,
        lease_until=None,
        fence=0,
        steps=0,
        occurred_at=content.since,
        created_at=picture.now,
    )
    record(picture, delivery, Step.QUEUED, {"events": content.events, "last_log_id": content.log_id})
    if policy != WakePolicy.NEXT_TURN:  # then the bridge is there already, and asks
        tell_bridge(picture, delivery)
    return picture.deliveries[delivery.delivery_id]


def claim(picture: Picture, delivery: Delivery, rules: WakeRules, stamp: Stamp) -> Delivery:
    """Take it under a lease.  When the lease runs out, whoever looks next may take it: it counts as due then."""
    until = picture.now + rules.lease_seconds * 1_000_000
    claimed = _replace(
        delivery,
        attempts=delivery.attempts + 1,
        lease_owner=stamp.node,
        lease_until=until,
        next_attempt_at=until,
        fence=delivery.fence + 1,
    )
    picture.put_delivery(claimed)
    record(picture, claimed, "attempt", {"node": stamp.node})
    return picture.deliveries[delivery.delivery_id]


def window_of(subscription: Subscription, rules: WakeRules) -> timedelta:
    seconds = subscription.coalesce_window
    return timedelta(seconds=rules.coalesce_seconds if seconds is None else seconds)


def _retime(picture: Picture, subscription: Subscription, flush_at: int | None) -> None:
    if subscription.flush_at != flush_at:
        picture.move_subscription_tail(_replace(subscription, flush_at=flush_at))


def confirmed_to(picture: Picture, subscription: Subscription, reached: int, *, but: int | None = None) -> int:
    """Up to where nothing waits or is under way, but for one event, if all until `reached` was matched."""
    callback = callback_of(subscription)
    waiting = {wake.log_id for wake in open_wakes(picture, subscription.subscription_id)}
    waiting |= {delivery.log_id for delivery in open_deliveries(picture, subscription.subscription_id)}
    missing = [] if callback is None or callback.replay_after is None else [callback.replay_after]
    return min([reached, *missing, *(log_id - 1 for log_id in waiting - {but})])


def retire(picture: Picture, subscription: Subscription, reason: str, actor: str) -> Subscription:
    row = _replace(
        subscription,
        status=SubscriptionStatus.RETIRED,
        status_reason=reason,
        previous_key=None,
        previous_key_until=None,
        flush_at=None,
        first_queued_at=None,
        updated_at=picture.now,
    )
    picture.put_subscription(row)
    subscribe.index(picture, row, active=False)
    dismiss(picture, row)
    subscribe.record(picture, "retired", row, actor)
    return row


def dismiss(picture: Picture, subscription: Subscription) -> None:
    """The subscription is gone: what it still had to ring is dropped, what is under way is fenced off."""
    for wake in open_wakes(picture, subscription.subscription_id):
        _put(picture, wake, WakeState.DROPPED, Why.UNSUBSCRIBED, None)
    for delivery in open_deliveries(picture, subscription.subscription_id):
        fenced = _replace(delivery, fence=delivery.fence + 1)
        evidence.end(picture, fenced, Outcome.SKIPPED, str(Why.UNSUBSCRIBED))
