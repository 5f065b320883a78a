"""Wake subscriptions: who wants to be woken by what, through which route.

A subscription is found by its keys: one row for each word of its most telling filter.  An event looks up the words that
it could be found by, so matching costs what matches, not how many subscriptions exist; `matches` then decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

import msgspec

from wakeline.core.ids import derived

_encode = msgspec.json.Encoder(order="deterministic").encode


class Trigger(StrEnum):
    SENT_TO_ME = "SENT_TO_ME"
    TASK_STATE_CHANGED = "TASK_STATE_CHANGED"
    PERMISSION_GRANTED = "PERMISSION_GRANTED"
    HEARTBEAT_PULSE = "HEARTBEAT_PULSE"
    NOTICE_ASSIGNED = "NOTICE_ASSIGNED"


class Target(StrEnum):
    MCP = "mcp-notifications"
    WEBHOOK = "a2a-webhook"
    BRIDGE = "bridge-daemon"
    DISABLED = "disabled"
    NONE = "none"


class SubscriptionStatus(StrEnum):
    ACTIVE = "active"
    DEGRADED = "degraded"
    RETIRED = "retired"


class Subscription(msgspec.Struct, frozen=True, array_like=True, gc=False):
    subscription_id: str
    workspace_id: int
    handle: str
    trigger: str
    filters: str  # JSON of Filters
    route_key: str  # what makes two subscriptions the same
    target: str
    url: str | None
    coalesce_window: int | None  # seconds; None: the setting's
    metadata: str  # JSON: what else the subscriber said about the route
    wake_policy: str  # for events that are not messages
    signing_key: str | None  # encrypted
    previous_key: str | None  # encrypted; signs beside the new one until its time is over
    previous_key_until: int | None
    status: str
    status_reason: str | None
    failures: int  # exhausted deliveries in a row
    from_log_id: int  # only later rows are matched
    created_at: int
    updated_at: int
    rung_at: int | None = None  # when its last window began
    first_queued_at: int | None = None
    flush_at: int | None = None  # when its open wakes are to be planned next
    events: int = 0
    rings: int = 0
    coalesced: int = 0
    window_used: int = 0  # microseconds, over all rings
    latency_total: int = (
        0  # microseconds from the oldest event of a ring to its acceptance, over all that were confirmed
    )
    latency_most: int = 0
    confirmed: int = 0  # rings that arrived, as far as anybody can tell


class SubscriptionKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    workspace_id: int
    handle: str
    trigger: str
    key: str
    subscription_id: str
    active: int


class Filters(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What else must be true of an event, all of it together.  What is empty asks for nothing."""

    tagged_concepts: tuple[str, ...] = ()  # any of them
    priority: str | None = None
    sender_filter: tuple[str, ...] = ()
    in_reply_to_filter: tuple[str, ...] = ()  # a message that it answers, or the thread that it is in


class EventFacts(msgspec.Struct, frozen=True):
    """What filters ask about an event.  What an event does not have, no filter finds."""

    sender: str
    priority: str | None = None
    tags: Sequence[str] = ()
    reply_ids: Sequence[str] = ()  # of a message: its in_reply_to, if any, and its thread_id


class Callback(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Made by `events/subscribe` of MCP: every event goes out by itself, in the shape of that draft."""

    ends_at: int | None = None  # None: when its owner says so
    replay_after: int | None = None  # what came after this position and before the subscription is still to be found


class Metadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a subscriber said about the route and no column holds."""

    daemon_socket_path: str | None = None
    is_default: bool = False  # made for an agent that connected, not by its owner
    full_body: bool = False  # rings bring whole messages along, enclosed as untrusted data
    callback: Callback | None = None


parse_filters = msgspec.json.Decoder(Filters).decode
parse_metadata = lru_cache(1024)(msgspec.json.Decoder(Metadata).decode)  # every plan asks, and few ever differ


def is_filtered(subscription: Subscription) -> bool:
    return parse_filters(subscription.filters) != Filters()


def canonical(filters: Filters) -> Filters:
    """The same filters in the one spelling that is stored."""
    return Filters(
        tagged_concepts=tuple(sorted(set(filters.tagged_concepts))),
        priority=filters.priority,
        sender_filter=tuple(sorted(set(filters.sender_filter))),
        in_reply_to_filter=tuple(sorted(set(filters.in_reply_to_filter))),
    )


def to_json(value: Filters | Metadata) -> str:
    return _encode(value).decode()


def route_key(
    handle: str, trigger: str, filters: Filters, target: str, url: str | None, daemon_socket_path: str | None
) -> str:
    """What makes two subscriptions the same.  Only what the target routes by counts as routing."""
    place = {Target.WEBHOOK: url, Target.BRIDGE: daemon_socket_path}.get(Target(target))
    return hashlib.sha256(_encode([handle, trigger, canonical(filters), target, place])).hexdigest()


def callback_id(workspace_id: int, handle: str, url: str) -> str:
    """One id for ever, as the draft has it: a receiver that knows it finds its key, also when it was made anew."""
    return derived("0" * 26, f"{workspace_id} {handle} callback {url}")


def callback_of(subscription: Subscription) -> Callback | None:
    return parse_metadata(subscription.metadata).callback


def ends_at(subscription: Subscription) -> int | None:
    callback = callback_of(subscription)
    return None if callback is None else callback.ends_at


def default_id(workspace_id: int, handle: str) -> str:
    """An agent's default subscription has one id for ever, so that one that was removed is known to have been."""
    return derived("0" * 26, f"{workspace_id} {handle} default subscription")


def match_keys(filters: Filters) -> list[str]:
    """The words of the most telling filter."""
    if filters.sender_filter:
        return [f"sender:{handle}" for handle in filters.sender_filter]
    if filters.in_reply_to_filter:
        return [f"reply:{one}" for one in filters.in_reply_to_filter]
    if filters.tagged_concepts:
        return [f"tag:{tag}" for tag in filters.tagged_concepts]
    return ["any" if filters.priority is None else f"priority:{filters.priority}"]


def event_keys(facts: EventFacts) -> list[str]:
    """Every word that a subscription to this event could have as a key."""
    keys = ["any", f"sender:{facts.sender}", *(f"reply:{one}" for one in facts.reply_ids)]
    keys += [f"tag:{tag}" for tag in facts.tags]
    return keys if facts.priority is None else [*keys, f"priority:{facts.priority}"]


def matches(filters: Filters, facts: EventFacts) -> bool:
    return (
        _any_of(filters.sender_filter, (facts.sender,))
        and _any_of(filters.in_reply_to_filter, facts.reply_ids)
        and _any_of(filters.tagged_concepts, facts.tags)
        and filters.priority in (None, facts.priority)
    )


def _any_of(wanted: Sequence[str], found: Sequence[str]) -> bool:
    return not wanted or not set(wanted).isdisjoint(found)


def live_keys(subscription: Subscription, now: int) -> list[str]:
    """The encrypted signing keys that sign now, newest first."""
    keys = [subscription.signing_key]
    if subscription.previous_key_until is not None and now < subscription.previous_key_until:
        keys.append(subscription.previous_key)
    return [key for key in keys if key is not None]
