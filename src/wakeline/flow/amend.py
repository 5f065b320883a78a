"""Change, resume and remove a wake subscription, and give it a new signing key.

Only its owner and humans know that it exists; to everybody else it does not.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec import UNSET, UnsetType

from wakeline.core import policy
from wakeline.core.instant import plus
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.subscription import (
    Filters,
    Metadata,
    Subscription,
    SubscriptionStatus,
    Target,
    callback_of,
    canonical,
    parse_filters,
    parse_metadata,
    route_key,
    to_json,
)
from wakeline.errors import Conflict, NotFound
from wakeline.flow.plan import open_deliveries, retire
from wakeline.flow.subscribe import index, record, subscriptions_of

_replace = msgspec.structs.replace


class _OfOne(msgspec.Struct, frozen=True):
    caller: Caller
    subscription_id: str

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.subscriptions.add(self.subscription_id)

    def find(self, picture: Picture) -> Subscription:
        """The subscription, also a removed one, if the caller may know of it."""
        policy.admit(picture, self.caller)
        row = picture.subscriptions.get(self.subscription_id)
        if row is None or not may_manage(self.caller, row):
            raise unknown(self.subscription_id)
        policy.require_writer(self.caller)
        return row

    def find_live(self, picture: Picture) -> Subscription:
        row = self.find(picture)
        if row.status == SubscriptionStatus.RETIRED:
            raise unknown(self.subscription_id)
        return row


def may_manage(caller: Caller, row: Subscription) -> bool:
    return row.workspace_id == caller.workspace_id and (row.handle == caller.handle or caller.is_human)


def require_plain(row: Subscription) -> None:
    """What a callback's receiver was promised, only `events/subscribe` may change."""
    if callback_of(row) is not None:
        raise Conflict("MCP_EVENT_SUBSCRIPTION", "This subscription was made by events/subscribe of MCP.")


def unknown(subscription_id: str) -> NotFound:
    return NotFound("SUBSCRIPTION_NOT_FOUND", f"There is no wake subscription {subscription_id} of yours.")


class Unsubscribe(_OfOne, frozen=True):
    """Removing what is removed changes nothing."""

    def needs(self, needs: Needs) -> None:
        super().needs(needs)
        needs.plans.add(self.subscription_id)  # what waits for it or is under way
        needs.seats.add(self.subscription_id)

    def decide(self, picture: Picture) -> Subscription:
        before = self.find(picture)
        if before.status == SubscriptionStatus.RETIRED:
            return before
        return retire(picture, before, "unsubscribed", self.caller.handle)


class Change(msgspec.Struct, frozen=True):
    """What is UNSET stays; None is a value."""

    trigger: str | UnsetType = UNSET
    filters: Filters | UnsetType = UNSET
    target: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    coalesce_window: int | UnsetType | None = UNSET
    daemon_socket_path: str | UnsetType | None = UNSET
    wake_policy: str | UnsetType = UNSET
    full_body: bool | UnsetType = UNSET
    sealed_key: str | None = None  # encrypted; used if it becomes a webhook


class Update(_OfOne, frozen=True):
    owner: str  # whose other routes it must not collide with
    change: Change

    def needs(self, needs: Needs) -> None:
        super().needs(needs)
        needs.subscriptions_of.add(self.owner)

    def decide(self, picture: Picture) -> Subscription:
        before = self.find_live(picture)
        require_plain(before)
        row = _changed(before, self.change)
        if row == before:
            return before
        self._require_free(picture, row)
        if row.status == SubscriptionStatus.ACTIVE:  # a degraded one waits for `resume`, whatever its route is now
            row = _replace(row, flush_at=picture.now)
        row = _replace(row, updated_at=picture.now)
        index(picture, before, active=False)
        index(picture, row, active=True)
        picture.put_subscription(row)
        if row.target != before.target:
            _call_back(picture, row)
        record(picture, "changed", row, self.caller.handle)
        return row

    def _require_free(self, picture: Picture, row: Subscription) -> None:
        for other in subscriptions_of(picture, row.handle):
            if other.route_key == row.route_key and other.subscription_id != row.subscription_id:
                raise Conflict(
                    "SUBSCRIPTION_EXISTS",
                    "Another subscription has the same trigger, filters and route.",
                    subscription_id=other.subscription_id,
                )


class Resume(_OfOne, frozen=True):
    """Try a degraded route again, from now on and for what was not delivered."""

    def decide(self, picture: Picture) -> Subscription:
        before = self.find_live(picture)
        if before.status == SubscriptionStatus.ACTIVE:
            return before
        row = _replace(
            before,
            status=SubscriptionStatus.ACTIVE,
            status_reason=None,
            failures=0,
            flush_at=picture.now,
            updated_at=picture.now,
        )
        picture.put_subscription(row)
        record(picture, "resumed", row, self.caller.handle)
        return row


class RotateKey(_OfOne, frozen=True):
    """The previous key signs beside the new one for a while, so that receivers can change in peace."""

    sealed_key: str
    overlap: timedelta

    def decide(self, picture: Picture) -> Subscription:
        before = self.find_live(picture)
        if before.target != Target.WEBHOOK:
            raise Conflict("NOT_A_WEBHOOK", f"The target of this subscription is {before.target}.")
        require_plain(before)
        row = _replace(
            before,
            signing_key=self.sealed_key,
            previous_key=before.signing_key if self.overlap else None,
            previous_key_until=plus(picture.now, self.overlap) if self.overlap else None,
            updated_at=picture.now,
        )
        picture.put_subscription(row)
        record(picture, "changed", row, self.caller.handle)
        return row


def _call_back(picture: Picture, row: Subscription) -> None:
    """What waits for another attempt by the route that was is looked at now: whoever claims it gives it to the new one.

    What somebody is sending just now they settle themselves.
    """
    for delivery in open_deliveries(picture, row.subscription_id):
        if delivery.lease_owner is None and delivery.next_attempt_at is not None:
            picture.put_delivery(_replace(delivery, next_attempt_at=min(delivery.next_attempt_at, picture.now)))


def _changed(before: Subscription, change: Change) -> Subscription:
    filters = parse_filters(before.filters) if change.filters is UNSET else canonical(change.filters)
    said = parse_metadata(before.metadata)
    path = said.daemon_socket_path if change.daemon_socket_path is UNSET else change.daemon_socket_path
    full_body = said.full_body if change.full_body is UNSET else change.full_body
    trigger, target = _or(change.trigger, before.trigger), _or(change.target, before.target)
    url = before.url if change.url is UNSET else change.url
    if target == Target.WEBHOOK and url is None:
        raise Conflict("WEBHOOK_URL_MISSING", "A webhook needs a URL, and this subscription has none.")
    row = _replace(
        before,
        trigger=trigger,
        filters=to_json(filters),
        target=target,
        url=url,
        coalesce_window=before.coalesce_window if change.coalesce_window is UNSET else change.coalesce_window,
        metadata=to_json(Metadata(daemon_socket_path=path, full_body=full_body)),
        wake_policy=_or(change.wake_policy, before.wake_policy),
        route_key=route_key(before.handle, trigger, filters, target, url, path),
    )
    return row if target == before.target else _with_key(row, change.sealed_key)


def _with_key(row: Subscription, sealed_key: str | None) -> Subscription:
    """A route that became a webhook gets a key; one that ceased to be one needs none."""
    key = sealed_key if row.target == Target.WEBHOOK else None
    return _replace(row, signing_key=key, previous_key=None, previous_key_until=None)


def _or(said: str | UnsetType, before: str) -> str:
    return before if isinstance(said, UnsetType) else said
