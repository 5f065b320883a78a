"""Wake subscriptions on the wire: our own spelling first, then the wake protocol's."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from wakeline.wire.common import (
    HANDLE_PATTERN,
    Answer,
    Epoch,
    Handle,
    Id,
    Instant,
    Limit,
    Priority,
    Query,
    Request,
    WakePolicy,
)

WakeTrigger = Literal["SENT_TO_ME", "TASK_STATE_CHANGED", "PERMISSION_GRANTED", "HEARTBEAT_PULSE", "NOTICE_ASSIGNED"]
HarnessTarget = Literal["mcp-notifications", "a2a-webhook", "bridge-daemon", "disabled", "none"]
WakeAction = Literal["subscribe", "unsubscribe", "update", "list", "resync", "resume", "rotate_key"]

Concepts = Annotated[list[Annotated[str, Meta(pattern=r"^[^\u0000]{1,64}$(?!\n)")]], Meta(max_length=32)]
Senders = Annotated[list[Handle], Meta(max_length=100)]
Replies = Annotated[list[Id], Meta(max_length=100)]
WebhookUrl = Annotated[
    str, Meta(max_length=2048, pattern=r"^https?://[!-~]+$(?!\n)", examples=["https://hooks.example.org/wake"])
]
CoalesceWindow = Annotated[int, Meta(ge=0, le=300)]
SocketPath = Annotated[str, Meta(pattern=r"^/[^\u0000]{0,1000}$(?!\n)", examples=["/run/user/1000/wake.sock"])]
# The end of a page, as the one before gave it.
SubscriptionPage = Annotated[str, Meta(pattern=HANDLE_PATTERN.replace(r"$(?!\n)", r"/[0-9A-Za-z]{26}$(?!\n)"))]


class WakeFilters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of them must be true; of a list, any one."""

    tagged_concepts: Concepts = []
    priority: Priority | None = None
    sender_filter: Senders = []
    in_reply_to_filter: Replies = []


class TargetMetadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out stays as it is; a null window is the server's."""

    url: WebhookUrl | UnsetType = UNSET
    coalesce_window: CoalesceWindow | UnsetType | None = UNSET
    daemon_socket_path: SocketPath | UnsetType | None = UNSET
    wake_policy: WakePolicy | UnsetType = UNSET
    full_body: bool | UnsetType = UNSET  # rings in sessions bring whole messages, as untrusted data


class SubscribeWake(Request, frozen=True):
    trigger: WakeTrigger
    filters: WakeFilters = WakeFilters()
    harness_target: HarnessTarget | None = None
    harness_target_metadata: TargetMetadata = TargetMetadata()
    mcp_connected: bool = False


class WakesQuery(Query, frozen=True):
    """`events`: those that the listener can be told of, with commas between; all, if it is not given."""

    events: Annotated[str, Meta(max_length=500)] | None = None


class ChangeWake(Request, frozen=True):
    trigger: WakeTrigger | UnsetType = UNSET
    filters: WakeFilters | UnsetType = UNSET
    harness_target: HarnessTarget | UnsetType = UNSET
    harness_target_metadata: TargetMetadata = TargetMetadata()


class WakeSubscribed(Answer, frozen=True):
    subscription_id: str
    harness_target: str
    signing_key: str | UnsetType = UNSET
    status: Literal["existing"] | UnsetType = UNSET


class WakeUnsubscribed(Answer, frozen=True):
    subscription_id: str
    status: Literal["removed"]


class WakeKey(Answer, frozen=True):
    subscription_id: str
    signing_key: str
    previous_key_until: Instant | None


class TargetMetadataView(Answer, frozen=True):
    url: str | None
    coalesce_window: int | None
    daemon_socket_path: str | None
    wake_policy: str
    full_body: bool


class WakeMetrics(Answer, frozen=True):
    events: int
    rings: int
    coalesced: int
    window_used_seconds: float
    latency_average_seconds: float | None
    latency_most_seconds: float


class HeldView(Answer, frozen=True):
    """Wakes that did not ring yet: how many, why, and until when, if that is known."""

    state: str
    reason: str | None
    count: int
    until: Instant | None


class CursorView(Answer, frozen=True):
    """How far the subscription is confirmed.  Zero and no times: nothing was delivered yet."""

    consumer_id: str
    stream_name: str
    subject_id: str
    last_sequence: int
    last_delivery_id: str | None
    last_delivered_at: Instant | None
    last_error: str | None
    updated_at: Instant | None


class WakeSubscriptionView(Answer, frozen=True):
    subscription_id: str
    handle: str
    trigger: str
    filters: WakeFilters
    harness_target: str
    harness_target_metadata: TargetMetadataView
    status: str
    reason: str | None
    failures: int
    is_default: bool
    from_log_id: int
    previous_key_until: Instant | None
    created_at: Instant
    updated_at: Instant
    metrics: WakeMetrics
    held: list[HeldView] | UnsetType = UNSET
    cursor: CursorView | UnsetType = UNSET
    signing_key: str | UnsetType = UNSET
    ends_at: Instant | UnsetType | None = UNSET  # only of what `events/subscribe` of MCP made


class WakeSubscriptionsQuery(Query, frozen=True):
    handle: Handle | None = None
    after: SubscriptionPage | None = None
    limit: Limit = 100


class WakeSubscriptions(Answer, frozen=True):
    subscriptions: list[WakeSubscriptionView]
    has_more: bool
    next: str | None


# -- the wake protocol's spelling -------------------------------------------------------------------------------------


class ManagedFilters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    tagged_concepts: Concepts = []
    priority: Priority | None = None
    sender_filter: Senders = []
    in_reply_to_filter: Replies = []


class ManagedMetadata(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    url: WebhookUrl | UnsetType = UNSET
    coalesce_window: CoalesceWindow | UnsetType | None = UNSET
    daemon_socket_path: SocketPath | UnsetType | None = UNSET
    wake_policy: WakePolicy | UnsetType = UNSET
    full_body: bool | UnsetType = UNSET  # rings in sessions bring whole messages, as untrusted data


_NAMES = {
    "subscription_id": "subscriptionId",
    "harness_target": "harnessTarget",
    "harness_target_metadata": "harnessTargetMetadata",
    "since_log_id": "sinceLogId",
    "mcp_connected": "mcpConnected",
}


class ManageWake(Request, frozen=True, rename=_NAMES):
    """One door for everything.  `mcpConnected` is said by the MCP face, which knows it."""

    action: WakeAction
    subscription_id: Id | UnsetType = UNSET
    trigger: WakeTrigger | UnsetType = UNSET
    filters: ManagedFilters | UnsetType = UNSET
    harness_target: HarnessTarget | UnsetType = UNSET
    harness_target_metadata: ManagedMetadata = ManagedMetadata()
    since_log_id: Annotated[int, Meta(ge=0, le=2**53)] | UnsetType = UNSET
    epoch: Epoch | None = None
    mcp_connected: bool = False


class ManagedState(Answer, frozen=True, rename="camel"):
    subscription_id: str
    agent_identity: str
    trigger: str
    filters: ManagedFilters
    harness_target: str
    harness_target_metadata: ManagedMetadata
    status: str
    created_at: Instant
    updated_at: Instant
    reason: str | UnsetType = UNSET


class ManagedWake(Answer, frozen=True, rename="camel"):
    """Each action fills what it has to say."""

    subscription_id: str | UnsetType = UNSET
    harness_target: str | UnsetType = UNSET
    signing_key: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    current_state: ManagedState | UnsetType = UNSET
    subscriptions: list[ManagedState] | UnsetType = UNSET
    events_replayed: int | UnsetType = UNSET
    last_log_id: int | UnsetType = UNSET
    clamped: bool | UnsetType = UNSET
