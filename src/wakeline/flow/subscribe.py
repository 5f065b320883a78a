"""Subscribe to wakes: by the owner's wish, or by default when an agent connects.

Subscribing again to the same route is the same subscription.  Without a target the best route is taken that is known
to wake: a bridge whose session has proven it, else a webhook, else a live MCP connection, else none.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from wakeline.core import policy
from wakeline.core.log import PRINCIPAL_STREAM
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller, Kind
from wakeline.core.seat import may_ring
from wakeline.core.session import Session
from wakeline.core.subscription import (
    Callback,
    Filters,
    Metadata,
    Subscription,
    SubscriptionKey,
    SubscriptionStatus,
    Target,
    Trigger,
    canonical,
    default_id,
    is_filtered,
    match_keys,
    parse_filters,
    parse_metadata,
    route_key,
    to_json,
)
from wakeline.errors import Forbidden, InvalidArgument

_replace = msgspec.structs.replace
RANK = (Target.NONE, Target.MCP, Target.BRIDGE)  # how much a default's route is worth; the owner's own choices stay


class Route(msgspec.Struct, frozen=True):
    """How the subscriber wants to be reached.  None: not said."""

    target: str | None = None
    url: str | None = None
    coalesce_window: int | None = None
    daemon_socket_path: str | None = None
    wake_policy: str | None = None
    sealed_key: str | None = None  # encrypted; used if it becomes a webhook
    has_mcp: bool = False
    full_body: bool | None = None
    callback: Callback | None = None


class Subscribed(msgspec.Struct, frozen=True):
    subscription: Subscription
    existed: bool


class Subscribe(msgspec.Struct, frozen=True):
    caller: Caller
    subscription_id: str
    trigger: str
    filters: Filters
    route: Route
    limit: int

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.sessions_of.add(self.caller.handle)
        needs.subscriptions_of.add(self.caller.handle)

    def decide(self, picture: Picture) -> Subscribed:
        policy.admit(picture, self.caller)
        policy.require_writer(self.caller)
        handle, route = self.caller.handle, self.route
        target = route.target or best_target(sessions_of(picture, handle), url=route.url, has_mcp=route.has_mcp)
        if target == Target.WEBHOOK and route.url is None:
            raise InvalidArgument("INVALID_ARGUMENT", "A webhook needs a URL.", "Give it in the target's metadata.")
        key = route_key(handle, self.trigger, self.filters, target, route.url, route.daemon_socket_path)
        mine = subscriptions_of(picture, handle)
        before = next((row for row in mine if row.route_key == key), None)
        if before is not None:
            return Subscribed(_merge(picture, before, route), existed=True)
        require_room(picture, handle, self.limit)
        row = new(picture, self.subscription_id, handle, self.trigger, canonical(self.filters), target, route)
        create(picture, row, handle)
        return Subscribed(row, existed=False)


class EnsureDefault(msgspec.Struct, frozen=True):
    """An agent connected: it is woken for its mail unless it has said how it wants to be, or that it does not."""

    caller: Caller
    has_mcp: bool = False

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.sessions_of.add(self.caller.handle)
        needs.subscriptions_of.add(self.caller.handle)
        needs.subscriptions.add(default_id(self.caller.workspace_id, self.caller.handle))

    def decide(self, picture: Picture) -> Subscription | None:
        principal = policy.admit(picture, self.caller)
        if principal.kind != Kind.AGENT:
            return None
        handle = principal.handle
        target = best_target(sessions_of(picture, handle), url=None, has_mcp=self.has_mcp)
        default = picture.subscriptions.get(default_id(self.workspace_id, handle))
        if any(_says_how(row) for row in subscriptions_of(picture, handle)):
            return None if default is None else improve(picture, default, target)
        if default is not None:
            return None  # its owner removed it
        row = new(
            picture,
            default_id(self.workspace_id, handle),
            handle,
            Trigger.SENT_TO_ME,
            Filters(),
            target,
            Route(),
            is_default=True,
        )
        create(picture, row, handle)
        return row


def _says_how(row: Subscription) -> bool:
    """Whose sessions are to be woken by some mail only, or by none, has decided.  A webhook for some mail says nothing
    of the rest, which nobody would hear of.
    """
    return row.trigger == Trigger.SENT_TO_ME and (row.target != Target.WEBHOOK or not is_filtered(row))


def sessions_of(picture: Picture, handle: str) -> list[Session]:
    return [row for row in picture.sessions.values() if row.handle == handle and row.ended_at is None]


def subscriptions_of(picture: Picture, handle: str) -> list[Subscription]:
    rows = picture.subscriptions.values()
    return [row for row in rows if row.handle == handle and row.status != SubscriptionStatus.RETIRED]


def require_room(picture: Picture, handle: str, limit: int) -> None:
    number = len(subscriptions_of(picture, handle))
    if number >= limit:
        raise Forbidden(
            "TOO_MANY_SUBSCRIPTIONS",
            f"{handle} has {number} wake subscriptions; at most {limit} are kept.",
            rule="subscriptions_per_agent",
            limit=limit,
        )


def best_target(sessions: Iterable[Session], *, url: str | None, has_mcp: bool) -> Target:
    if any(may_ring(session) for session in sessions):
        return Target.BRIDGE
    if url is not None:
        return Target.WEBHOOK
    return Target.MCP if has_mcp else Target.NONE


def create(picture: Picture, row: Subscription, actor: str) -> None:
    picture.put_subscription(row)
    index(picture, row, active=True)
    record(picture, "created", row, actor)


def index(picture: Picture, row: Subscription, *, active: bool) -> None:
    """The rows that the matcher finds it by."""
    for key in match_keys(parse_filters(row.filters)):
        picture.put_subscription_key(
            SubscriptionKey(row.workspace_id, row.handle, row.trigger, key, row.subscription_id, int(active))
        )


def record(picture: Picture, what: str, row: Subscription, actor: str) -> None:
    """Without the URL: it may hold a secret of its receiver's."""
    data = {"trigger": row.trigger, "harness_target": row.target, "status": row.status, "reason": row.status_reason}
    picture.append(f"subscription.{what}", PRINCIPAL_STREAM + row.handle, 0, actor, row.subscription_id, data)


def new(
    picture: Picture,
    subscription_id: str,
    handle: str,
    trigger: str,
    filters: Filters,
    target: str,
    route: Route,
    *,
    is_default: bool = False,
) -> Subscription:
    key = route_key(handle, trigger, filters, target, route.url, route.daemon_socket_path)
    return Subscription(
        subscription_id=subscription_id,
        workspace_id=picture.workspace.workspace_id,
        handle=handle,
        trigger=trigger,
        filters=to_json(filters),
        route_key=key if route.callback is None else subscription_id,  # beside a plain webhook to the same URL
        target=target,
        url=route.url,
        coalesce_window=route.coalesce_window,
        metadata=to_json(
            Metadata(
                daemon_socket_path=route.daemon_socket_path,
                is_default=is_default,
                full_body=bool(route.full_body),
                callback=route.callback,
            )
        ),
        wake_policy=route.wake_policy or "immediate",
        signing_key=route.sealed_key if target == Target.WEBHOOK else None,
        previous_key=None,
        previous_key_until=None,
        status=SubscriptionStatus.ACTIVE,
        status_reason=None,
        failures=0,
        from_log_id=picture.last_log_id,
        created_at=picture.now,
        updated_at=picture.now,
    )


def _merge(picture: Picture, before: Subscription, route: Route) -> Subscription:
    """What was said anew about an existing route; what was not said stays.  From now on it is the owner's own."""
    said = parse_metadata(before.metadata)
    full_body = said.full_body if route.full_body is None else route.full_body
    path = route.daemon_socket_path or said.daemon_socket_path
    metadata = Metadata(daemon_socket_path=path, full_body=full_body)
    row = _replace(
        before,
        coalesce_window=before.coalesce_window if route.coalesce_window is None else route.coalesce_window,
        wake_policy=route.wake_policy or before.wake_policy,
        metadata=to_json(metadata),
    )
    if row == before:
        return before
    row = _replace(row, updated_at=picture.now)
    picture.put_subscription(row)
    record(picture, "changed", row, row.handle)
    return row


def improve(picture: Picture, default: Subscription, target: Target) -> Subscription | None:
    """A default that nobody has touched follows the agent to a better route."""
    if default.status == SubscriptionStatus.RETIRED or not parse_metadata(default.metadata).is_default:
        return None
    key = route_key(default.handle, default.trigger, Filters(), target, None, None)
    taken = any(row.route_key == key for row in subscriptions_of(picture, default.handle))
    if taken or RANK.index(target) <= RANK.index(Target(default.target)):
        return default
    row = _replace(default, target=target, route_key=key, updated_at=picture.now)
    if row.status == SubscriptionStatus.ACTIVE:  # whatever waited for a route: nobody else need live to say so
        row = _replace(row, flush_at=picture.now)
    picture.put_subscription(row)
    record(picture, "changed", row, row.handle)
    return row
