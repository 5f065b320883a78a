"""The reads of bridges: what is to be rung on a host, whose time is over, and what the log means to rings."""

from __future__ import annotations

import msgspec

from wakeline.core.level import Proof
from wakeline.core.queries import Query
from wakeline.core.session import Session
from wakeline.core.wake_queries import Due


class Waiting(msgspec.Struct, frozen=True, array_like=True):
    delivery_id: str
    subscription_id: str
    session_id: str


class WaitingRings(Query[Waiting], frozen=True):
    """Deliveries for sessions of this host that nobody has taken up, oldest first."""

    workspace_id: int
    host: str
    limit: int
    row = Waiting


class HostSessions(Query[Session], frozen=True):
    """The sessions of this host that have not ended."""

    workspace_id: int
    host: str
    limit: int
    row = Session


class SessionRings(Query[str], frozen=True):
    """What is under way for one session."""

    session_id: str
    row = str


class MarkedRings(Query[Waiting], frozen=True):
    """The deliveries of one event: the first, and those that an operator had sent again."""

    workspace_id: int
    event_id: str
    row = Waiting


class RungThreads(Query[str], frozen=True):
    """The threads of the mail that one event rang for."""

    workspace_id: int
    event_id: str
    row = str


class LapsedRings(Query[Due], frozen=True):
    """Rings whose time is over: their lease, the wait for a sign of them, or the wait for a bridge."""

    now: int
    waiting_before: int
    limit: int
    row = Due


class Poked(msgspec.Struct, frozen=True, array_like=True):
    workspace_id: int
    subscription_id: str
    log_id: int
    delivery_id: str


class WakesToPoke(Query[Poked], frozen=True):
    """What is due, and what a clock that was set back would keep waiting."""

    now: int
    latest: int
    limit: int
    row = Poked


class ReadRings(Query[str], frozen=True):
    """Subscriptions with a ring under way whose owner has read something in this stretch of the log."""

    workspace_id: int
    after: int
    until: int
    row = str


class Answered(msgspec.Struct, frozen=True, array_like=True):
    delivery_id: str
    message_id: str


class AnsweredRings(Query[Answered], frozen=True):
    """Rings for messages that their receiver has answered in this stretch of the log."""

    workspace_id: int
    after: int
    until: int
    row = Answered


class Unread(msgspec.Struct, frozen=True, array_like=True):
    """A wake for a message that its receiver has not read."""

    subscription_id: str
    log_id: int
    message_id: str


class UnreadWakes(Query[Unread], frozen=True):
    """What could be told to a receiver now, most urgent first."""

    workspace_id: int
    handle: str
    now: int
    limit: int
    row = Unread


class OpenOnHost(Query[str], frozen=True):
    """Subscriptions with something to ring, of agents that have a session on this host."""

    workspace_id: int
    host: str
    row = str


class ProofList(Query[Proof], frozen=True):
    workspace_id: int
    row = Proof


class SessionsOnRoute(Query[Session], frozen=True):
    """Sessions of one harness, transport and version that have not ended."""

    workspace_id: int
    harness: str
    transport: str
    version: str
    row = Session
