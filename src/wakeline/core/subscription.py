"""Wake subscriptions: who wants to be woken by what, through which route."""

from __future__ import annotations

from enum import StrEnum

import msgspec


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
    latency_total: int = 0  # microseconds from the oldest event of a ring to its acceptance, over all rings
    latency_most: int = 0


class SubscriptionKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    workspace_id: int
    handle: str
    trigger: str
    key: str
    subscription_id: str
    active: int
