"""`manage_wake_subscription`: the wake protocol's one call, with its spelling, over the methods that every face has."""

from __future__ import annotations

from typing import assert_never

from msgspec import UNSET, UnsetType

from wakeline import wire
from wakeline.core.principal import Caller
from wakeline.errors import InvalidArgument
from wakeline.service.deliveries import Deliveries
from wakeline.service.subscriptions import Subscriptions

_PAGE = 500


class WakeProtocol:
    def __init__(self, subscriptions: Subscriptions, deliveries: Deliveries) -> None:
        self._subscriptions = subscriptions
        self._deliveries = deliveries

    async def manage(self, caller: Caller, request: wire.ManageWake) -> wire.ManagedWake:
        match request.action:
            case "subscribe":
                return await self._subscribe(caller, request)
            case "list":
                return await self._list(caller, request)
            case "update":
                return await self._update(caller, request)
            case "unsubscribe":
                gone = await self._subscriptions.unsubscribe(caller, _id(request))
                return wire.ManagedWake(subscription_id=gone.subscription_id, status=gone.status)
            case "resume":
                row = await self._subscriptions.resume(caller, _id(request))
                return wire.ManagedWake(subscription_id=row.subscription_id, current_state=_state(row))
            case "rotate_key":
                new = await self._subscriptions.rotate_key(caller, _id(request))
                return wire.ManagedWake(subscription_id=new.subscription_id, signing_key=new.signing_key)
            case "resync":
                return await self._resync(caller, request)
            case _:
                assert_never(request.action)

    async def _subscribe(self, caller: Caller, request: wire.ManageWake) -> wire.ManagedWake:
        if isinstance(request.trigger, UnsetType):
            raise _missing("trigger", "subscribe")
        target = request.harness_target
        made = await self._subscriptions.subscribe(
            caller,
            wire.SubscribeWake(
                agent_id=request.agent_id,
                workspace_id=request.workspace_id,
                trigger=request.trigger,
                filters=wire.WakeFilters() if isinstance(request.filters, UnsetType) else _filters(request.filters),
                harness_target=None if isinstance(target, UnsetType) else target,
                harness_target_metadata=_metadata(request.harness_target_metadata),
                mcp_connected=request.mcp_connected,
            ),
        )
        return wire.ManagedWake(
            subscription_id=made.subscription_id,
            harness_target=made.harness_target,
            signing_key=made.signing_key,
            status=made.status,
        )

    async def _update(self, caller: Caller, request: wire.ManageWake) -> wire.ManagedWake:
        filters = request.filters
        change = wire.ChangeWake(
            agent_id=request.agent_id,
            workspace_id=request.workspace_id,
            trigger=request.trigger,
            filters=UNSET if isinstance(filters, UnsetType) else _filters(filters),
            harness_target=request.harness_target,
            harness_target_metadata=_metadata(request.harness_target_metadata),
        )
        row = await self._subscriptions.change(caller, _id(request), change)
        return wire.ManagedWake(
            subscription_id=row.subscription_id, current_state=_state(row), signing_key=row.signing_key
        )

    async def _list(self, caller: Caller, request: wire.ManageWake) -> wire.ManagedWake:
        """One, or all of one's own: as many as one may have, page after page."""
        if not isinstance(request.subscription_id, UnsetType):
            return wire.ManagedWake(subscriptions=[_state(await self._subscriptions.get(caller, _id(request)))])
        found: list[wire.ManagedState] = []
        after: str | None = None
        while True:
            asked = wire.WakeSubscriptionsQuery(handle=caller.handle, after=after, limit=_PAGE)
            page = await self._subscriptions.list(caller, asked)
            found += [_state(row) for row in page.subscriptions]
            after = page.next
            if after is None:
                return wire.ManagedWake(subscriptions=found)

    async def _resync(self, caller: Caller, request: wire.ManageWake) -> wire.ManagedWake:
        if isinstance(request.since_log_id, UnsetType):
            raise _missing("sinceLogId", "resync")
        asked = wire.Resync(since_log_id=request.since_log_id, epoch=request.epoch)
        done = await self._deliveries.resync(caller, _id(request), asked)
        return wire.ManagedWake(
            subscription_id=done.subscription_id,
            events_replayed=done.events_replayed,
            last_log_id=done.last_log_id,
            clamped=done.clamped,
        )


def _id(request: wire.ManageWake) -> str:
    if isinstance(request.subscription_id, UnsetType):
        raise _missing("subscriptionId", request.action)
    return request.subscription_id


def _missing(name: str, action: str) -> InvalidArgument:
    return InvalidArgument("INVALID_ARGUMENT", f"The action {action!r} needs '{name}'.", "Add it.")


def _filters(given: wire.ManagedFilters) -> wire.WakeFilters:
    return wire.WakeFilters(**{name: getattr(given, name) for name in given.__struct_fields__})


def _metadata(given: wire.ManagedMetadata) -> wire.TargetMetadata:
    return wire.TargetMetadata(**{name: getattr(given, name) for name in given.__struct_fields__})


def _state(row: wire.WakeSubscriptionView) -> wire.ManagedState:
    said = row.harness_target_metadata
    return wire.ManagedState(
        subscription_id=row.subscription_id,
        agent_identity=row.handle,
        trigger=row.trigger,
        filters=wire.ManagedFilters(**{name: getattr(row.filters, name) for name in row.filters.__struct_fields__}),
        harness_target=row.harness_target,
        harness_target_metadata=wire.ManagedMetadata(
            url=said.url or UNSET,
            coalesce_window=said.coalesce_window,
            daemon_socket_path=said.daemon_socket_path or UNSET,
            wake_policy=said.wake_policy,  # type: ignore[arg-type] # it came in through the same type
            full_body=said.full_body or UNSET,
        ),
        status=row.status,
        reason=row.reason or UNSET,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
