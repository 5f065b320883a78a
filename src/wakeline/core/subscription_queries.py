"""The reads of wake subscriptions, in the order of owner and id.  What was removed is not there."""

from __future__ import annotations

from wakeline.core.queries import Query
from wakeline.core.subscription import Subscription


class OneSubscription(Query[Subscription], frozen=True):
    workspace_id: int
    subscription_id: str
    row = Subscription


class SubscriptionsOf(Query[Subscription], frozen=True):
    workspace_id: int
    handle: str
    after_id: str
    limit: int
    row = Subscription


class EverySubscription(Query[Subscription], frozen=True):
    workspace_id: int
    after_handle: str
    after_id: str
    limit: int
    row = Subscription
