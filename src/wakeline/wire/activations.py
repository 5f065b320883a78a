"""Activation on the wire: what a human allows, every attempt, and what bridges say of the processes that they start."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from wakeline.wire.bridge import BridgeId, Fence, Why
from wakeline.wire.common import Answer, Handle, Id, Instant, Limit, Moment, Query, Request
from wakeline.wire.sessions import Path, ProcessId, Text, Word

Allow = Literal["none", "resume", "spawn"]
ActivationResult = Literal["triggered", "already_active", "failed", "fallback_resumed", "fallback_spawned", "open"]
Argument = Annotated[str, Meta(min_length=1, max_length=4096)]
Output = Annotated[str, Meta(max_length=16_384)]


class AllowActivation(Request, frozen=True):
    """What may be started for an agent that is dormant.  It replaces what was said before."""

    allow: Allow
    max_per_hour: Annotated[int, Meta(ge=1, le=1000)] | None = None
    concurrency: Annotated[int, Meta(ge=1, le=100)] | None = None
    command: Annotated[list[Argument], Meta(min_length=1, max_length=64)] | None = None
    harness: Word | None = None
    host: Text | None = None
    cwd: Path | None = None


class MandateView(Answer, frozen=True):
    handle: str
    allow: str
    max_per_hour: int
    concurrency: int
    command: list[str] | None
    harness: str | None
    host: str | None
    cwd: str | None
    changed_by: str | None
    changed_at: Instant | None


class ActivationsQuery(Query, frozen=True):
    handle: Handle | None = None
    result: ActivationResult | None = None
    before: Id | None = None
    limit: Limit = 50


class ActivationView(Answer, frozen=True):
    activation_id: str
    handle: str
    way: str
    state: str  # planned, claimed, running, ended
    result: str | None
    reason: str | None
    attempt: int
    session_id: str | None
    host: str | None
    thread_id: str | None
    message_id: str | None
    pid: int | None
    exit_status: int | None
    stop_asked_by: str | None
    created_at: Instant
    started_at: Instant | None
    settled_at: Instant | None
    output: str | UnsetType | None = UNSET


class DormantView(Answer, frozen=True):
    """An agent of which nothing is heard although it has mail, and why nothing is started for it now."""

    handle: str
    reason: str | None
    tries: int
    failures: int
    stopped: bool
    message_id: str | None
    next_at: Instant | None


class Activations(Answer, frozen=True):
    activations: list[ActivationView]
    dormant: list[DormantView]
    has_more: bool
    next: str | None


class StopActivation(Request, frozen=True):
    pass


# -- bridges ----------------------------------------------------------------------------------------------------------


class ClaimActivations(Request, frozen=True):
    bridge_id: BridgeId
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class ActivationOrder(Answer, frozen=True):
    """One process to start, claimed.  `prompt` is the doorbell; `seconds` is how long it may run."""

    activation_id: str
    fence: int
    handle: str
    way: str
    harness: str | None
    native_id: str | None
    cwd: str | None
    pid: int | None  # of the session's last process: while it lives, nothing is started
    pid_started_at: Instant | None
    command: list[str] | None
    prompt: str
    seconds: int


class HeldActivation(Answer, frozen=True):
    """One that this bridge has claimed and not settled.  `stop`: a human wants it ended."""

    activation_id: str
    fence: int
    stop: bool


class ActivationOrders(Answer, frozen=True):
    """What to start, and what is already this bridge's."""

    orders: list[ActivationOrder]
    held: list[HeldActivation]


class StartedSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The session in which a started harness says that it works, and the folder that it was started in."""

    harness: Word
    native_id: Text
    cwd: Path | None = None


class StartActivation(Request, frozen=True):
    """It runs.  Said again with its `session` as soon as that is known, and now and then as a sign of life."""

    bridge_id: BridgeId
    activation_id: Id
    fence: Fence
    pid: ProcessId
    pid_started_at: Moment | None = None
    session: StartedSession | None = None


class SettleActivation(Request, frozen=True):
    bridge_id: BridgeId
    activation_id: Id
    fence: Fence
    end: Literal["ended", "already_active", "failed"]
    reason: Why | None = None
    exit_status: Annotated[int, Meta(ge=-255, le=255)] | None = None
    output: Output | None = None
    session: StartedSession | None = None


class ActivationSettled(Answer, frozen=True):
    """`stale`: it was not the caller's any more, and nothing was changed."""

    activation_id: str
    stale: bool
    result: str | None
