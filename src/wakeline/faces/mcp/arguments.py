"""What the tools take.  Every agent pays for every description here in tokens, so only what is not obvious has one.

The server checks the values again when the call reaches it; these types only say which fields exist, and refuse others.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from wakeline.wire import HarnessTarget, Presence, Priority, ThreadStatus, ThreadType, WakePolicy, WakeTrigger

MAX_TOKENS = 10_000  # of one read, unless the model asks for more: a full inbox must not fill its context
WAIT = 50


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of one tool.  What is left out is not sent."""

    def given(self) -> dict[str, Any]:
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


Seconds = Annotated[float, Meta(ge=0, le=WAIT)]
To = Annotated[list[str] | str, Meta(description="@handles, or one of role:x, everyone")]


class Reachable(Arguments, frozen=True):
    body: str
    to: To | None = None
    thread_id: str | None = None
    in_reply_to: str | None = None
    subject: str | None = None
    idempotency_key: str | None = None


class PostMessage(Reachable, frozen=True, omit_defaults=True):  # which all are None
    priority: Priority | None = None
    wake_policy: WakePolicy | None = None
    tags: list[str] | None = None
    expires_at: Annotated[str, Meta(description="RFC 3339")] | None = None
    supersedes: str | None = None
    metadata: dict[str, Any] | None = None


class Ask(Reachable, frozen=True):
    wait_seconds: Seconds = WAIT


class ReadMessages(Arguments, frozen=True):
    thread_id: str | None = None
    since_seq: int | None = None
    state: Literal["unread", "all", "archived"] | None = None
    after: Annotated[str, Meta(description="an inbox answer's 'next'")] | None = None
    limit: int | None = None
    max_tokens: int = MAX_TOKENS


class AckRead(Arguments, frozen=True):
    message_ids: list[str] | None = None
    thread_id: str | None = None
    last_read_seq: int | None = None


class CreateThread(Arguments, frozen=True):
    title: str
    type: ThreadType | None = None
    members: list[str] | None = None
    coordinator: str | None = None
    idempotency_key: str | None = None


class OneThread(Arguments, frozen=True):
    thread_id: str


class UpdateThreadStatus(Arguments, frozen=True):
    thread_id: str
    status: ThreadStatus
    reason: str | None = None
    escalation_owner: str | None = None
    override: bool | None = None


class Search(Arguments, frozen=True):
    q: str
    thread_id: str | None = None
    sender: str | None = None
    limit: int | None = None


class Wait(Arguments, frozen=True):
    after: Annotated[str, Meta(description="a 'position' of an earlier answer")] | None = None
    wait_seconds: Seconds = WAIT


class Nothing(Arguments, frozen=True):
    pass


class HeartbeatSession(Arguments, frozen=True):
    harness: Annotated[str, Meta(description="needed once")] | None = None
    session_id: Annotated[str, Meta(description="from your first heartbeat")] | None = None
    native_id: str | None = None
    presence: Presence | None = None
    context_tokens: int | None = None


class ManageWakeSubscription(Arguments, frozen=True, rename="camel"):
    action: Literal["subscribe", "unsubscribe", "update", "list", "resync", "resume", "rotate_key"]
    subscription_id: str | None = None
    trigger: WakeTrigger | None = None
    filters: (
        Annotated[
            dict[str, Any],
            Meta(description="all must hold: taggedConcepts[], priority, senderFilter[], inReplyToFilter[]"),
        ]
        | None
    ) = None
    harness_target: HarnessTarget | None = None
    harness_target_metadata: Annotated[dict[str, Any], Meta(description="url, coalesceWindow (s)")] | None = None
    since_log_id: Annotated[int, Meta(description="resync: the last logId you saw")] | None = None
    epoch: Annotated[str, Meta(description="before the '-' of a position")] | None = None

    def given(self) -> dict[str, Any]:
        """In the wake protocol's own spelling."""
        fields = msgspec.structs.fields(self)
        return {field.encode_name: value for field in fields if (value := getattr(self, field.name)) is not None}
