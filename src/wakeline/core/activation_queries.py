"""The reads of activation: who is dormant with mail, for what, and what is open."""

from __future__ import annotations

import msgspec

from wakeline.core.activation import Activation, Dormancy, Mandate
from wakeline.core.queries import Query


class Dormant(msgspec.Struct, frozen=True, array_like=True):
    """An agent of which nothing is heard, with the message that we last counted from."""

    handle: str
    message_id: str | None


class DormantAgents(Query[Dormant], frozen=True):
    """With unread mail, without a session that has shown life since then, and due for a look; by handle."""

    workspace_id: int
    beating_since: int
    now: int
    after: str
    limit: int
    row = Dormant


class Letter(msgspec.Struct, frozen=True, array_like=True):
    """An unread message that wants to wake its receiver."""

    message_id: str
    thread_id: str
    log_id: int
    created_at: int
    recipients: str


class WakingMail(Query[Letter], frozen=True):
    """Of one agent, most urgent first; what was posted up to `after` is left out."""

    workspace_id: int
    handle: str
    after: int
    now: int
    limit: int
    row = Letter


class RungWake(msgspec.Struct, frozen=True, array_like=True):
    subscription_id: str
    log_id: int


class RungWakes(Query[RungWake], frozen=True):
    """Wakes of one agent that were rung, for messages that are still unread."""

    workspace_id: int
    handle: str
    now: int
    limit: int
    row = RungWake


class ActivationFor(Query[Activation], frozen=True):
    workspace_id: int
    activation_id: str
    row = Activation


class ActivationList(Query[Activation], frozen=True):
    workspace_id: int
    handle: str  # empty: all
    result: str  # empty: all; "open": none yet
    before: str
    limit: int
    row = Activation


class OpenActivations(Query[Activation], frozen=True):
    """On one host, planned or under way, oldest first."""

    workspace_id: int
    host: str
    limit: int
    row = Activation


class LapsedActivation(msgspec.Struct, frozen=True, array_like=True):
    workspace_id: int
    activation_id: str
    handle: str
    message_id: str | None


class LapsedActivations(Query[LapsedActivation], frozen=True):
    """Whose lease is over, or that no bridge has claimed since `waiting_before`."""

    now: int
    waiting_before: int
    limit: int
    row = LapsedActivation


class MandateFor(Query[Mandate], frozen=True):
    workspace_id: int
    handle: str
    row = Mandate


class DormancyList(Query[Dormancy], frozen=True):
    """Of agents that have unread mail and are silent, the counted ones."""

    workspace_id: int
    handle: str  # empty: all
    beating_since: int
    limit: int
    row = Dormancy
