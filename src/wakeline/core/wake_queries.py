"""The reads of waking: what a stretch of the log means to subscriptions, what is due, what was delivered."""

from __future__ import annotations

import msgspec

from wakeline.core.cursor import Cursor
from wakeline.core.delivery import Delivery, DeliveryStep
from wakeline.core.log import LogEntry
from wakeline.core.queries import Query
from wakeline.core.subscription import Subscription


class MatchedMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message that a subscription may have asked for: found by its keys, still to be compared with its filters."""

    log_id: int
    handle: str
    subscription_id: str
    filters: str
    rung_at: int | None
    coalesce_window: int | None
    target: str
    ringing: int
    message_id: str
    thread_id: str
    seq: int
    sender: str
    subject: str | None
    priority: str
    tags: str
    in_reply_to: str | None
    wake_policy: str
    recipients: str
    created_at: int
    session_id: str | None


class Due(msgspec.Struct, frozen=True, array_like=True):
    workspace_id: int
    row_id: str
    subscription_id: str
    handle: str
    at: int


class Unrung(msgspec.Struct, frozen=True, array_like=True):
    workspace_id: int
    subscription_id: str
    handle: str
    stranded: int  # neither a delivery under way nor a time soon will make anybody look at it


class Held(msgspec.Struct, frozen=True, array_like=True):
    subscription_id: str
    state: str
    reason: str | None
    count: int
    until: int | None


class WakeMessages(Query[MatchedMessage], frozen=True):
    """Messages of a stretch of the log, with each subscription of a receiver that one of their keys finds.

    What was matched already, at once, is left out.
    """

    workspace_id: int
    after: int
    until: int
    row = MatchedMessage


class WakeReplay(WakeMessages, frozen=True):
    """The same for one subscription, of what its owner has not read, oldest first."""

    subscription_id: str
    now: int
    limit: int
    row = MatchedMessage


class WakeRows(Query[LogEntry], frozen=True):
    """Rows of a stretch that are no messages and that subscriptions may ask for, or that may end a hold."""

    workspace_id: int
    after: int
    until: int
    row = LogEntry


class Unblocked(Query[str], frozen=True):
    """Subscriptions with wakes held in a thread of which the stretch reports something."""

    workspace_id: int
    after: int
    until: int
    row = str


class SubscriptionsFor(Query[Subscription], frozen=True):
    """Those of one owner that ask for this trigger."""

    workspace_id: int
    handle: str
    trigger: str
    row = Subscription


class Watching(Query[str], frozen=True):
    """Those of one owner that ask for messages and are not told over a connection."""

    workspace_id: int
    handle: str
    limit: int
    row = str


class OpenSubscriptions(Query[str], frozen=True):
    """Those of one owner that have something to ring."""

    workspace_id: int
    handle: str
    row = str


class AnySubscription(Query[int], frozen=True):
    workspace_id: int
    row = int


class DueSubscriptions(Query[Due], frozen=True):
    until: int
    limit: int
    row = Due


class DueDeliveries(Query[Due], frozen=True):
    target: str
    until: int
    limit: int
    row = Due


class LeasedDeliveries(Query[Due], frozen=True):
    owner: str
    row = Due


class DistantDeliveries(Query[Due], frozen=True):
    """Whose time lies further ahead than any wait."""

    target: str
    after: int
    limit: int
    row = Due


class UnrungSubscriptions(Query[Unrung], frozen=True):
    """Those with something to ring, in the order of their ids."""

    after: str
    soon: int
    limit: int
    row = Unrung


class HeldWakes(Query[Held], frozen=True):
    """What one owner's subscriptions hold, by reason; only what is still unread."""

    workspace_id: int
    handle: str
    now: int
    row = Held


class DeliveryFor(Query[Delivery], frozen=True):
    workspace_id: int
    delivery_id: str
    row = Delivery


class DeliveryList(Query[Delivery], frozen=True):
    workspace_id: int
    handle: str  # empty: all
    subscription_id: str  # empty: all
    outcome: str  # empty: all; "open": none yet
    before: str
    limit: int
    row = Delivery


class DeliverySteps(Query[DeliveryStep], frozen=True):
    delivery_id: str
    row = DeliveryStep


class CursorFor(Query[Cursor], frozen=True):
    workspace_id: int
    consumer_id: str
    stream_name: str
    subject_id: str
    row = Cursor


class PulseCandidate(msgspec.Struct, frozen=True, array_like=True):
    handle: str
    unread: int


class PulsesDue(Query[PulseCandidate], frozen=True):
    """Agents that the watchdog has not looked after since `before` and that have unread mail or asked for pulses."""

    workspace_id: int
    before: int
    now: int
    limit: int
    row = PulseCandidate
