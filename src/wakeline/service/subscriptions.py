"""Wake subscriptions: make, list, change, resume and remove them, and give them new signing keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from wakeline import wire
from wakeline.core.cursor import Cursor, nowhere
from wakeline.core.destination import Network, check_url
from wakeline.core.event import event_type_of
from wakeline.core.instant import SECOND, to_datetime
from wakeline.core.principal import Caller
from wakeline.core.queries import WorkspaceById
from wakeline.core.signature import encode_key
from wakeline.core.subscription import Filters, Subscription, Target, parse_filters, parse_metadata
from wakeline.core.subscription_queries import EverySubscription, OneSubscription, SubscriptionsOf
from wakeline.core.wake_queries import CursorFor, Held, HeldWakes, WakeReplay
from wakeline.errors import Forbidden
from wakeline.flow.amend import Change, Resume, RotateKey, Unsubscribe, Update, may_manage, unknown
from wakeline.flow.catch_up import CatchUp
from wakeline.flow.evidence import STREAM, consumer_of
from wakeline.flow.find import find_messages
from wakeline.flow.subscribe import EnsureDefault, Route, Subscribe
from wakeline.service.context import Context, check_claims

T = TypeVar("T")
CAUGHT_UP = 100  # of the unread mail that came before a first session, the oldest: one ring tells of all


@dataclass(frozen=True, slots=True)
class Keys:
    """How signing keys are made, and how they are kept."""

    make: Callable[[], bytes]
    seal: Callable[[bytes], str]
    unseal: Callable[[str], bytes]
    overlap: timedelta

    def new(self) -> tuple[str, str]:
        """As it is shown, once, and as it is stored."""
        key = self.make()
        return encode_key(key), self.seal(key)


class Subscriptions:
    def __init__(
        self,
        context: Context,
        keys: Keys,
        *,
        allowed: Sequence[Network],
        limit: int,
        heard: Callable[[int, str], frozenset[str]],
    ) -> None:
        self._context = context
        self._keys = keys
        self._allowed = allowed
        self._limit = limit
        self._heard = heard

    async def subscribe(self, caller: Caller, request: wire.SubscribeWake) -> wire.WakeSubscribed:
        check_claims(caller, request)
        said = request.harness_target_metadata
        self._check(said.url)
        shown, sealed = self._keys.new()
        route = Route(
            target=request.harness_target,
            url=_known(said.url),
            coalesce_window=_known(said.coalesce_window),
            daemon_socket_path=_known(said.daemon_socket_path),
            wake_policy=_known(said.wake_policy),
            sealed_key=sealed,
            full_body=_known(said.full_body),
            has_mcp=request.mcp_connected or self._is_heard(caller, request.trigger),
        )
        command = Subscribe(
            caller, self._context.new_id(), request.trigger, _filters(request.filters), route, self._limit
        )
        made = await self._context.store.submit(command)
        fresh_key = made.subscription.signing_key == sealed
        return wire.WakeSubscribed(
            subscription_id=made.subscription.subscription_id,
            harness_target=made.subscription.target,
            signing_key=shown if fresh_key else UNSET,
            status="existing" if made.existed else UNSET,
        )

    def _is_heard(self, caller: Caller, trigger: str) -> bool:
        return event_type_of(trigger) in self._heard(caller.workspace_id, caller.handle)

    async def ensure_default(self, caller: Caller, *, mcp_connected: bool = False) -> None:
        """An agent connected: it is woken for its mail unless it has decided otherwise, also for what came before."""
        store = self._context.store
        default = await store.submit(EnsureDefault(caller, mcp_connected))
        if default is None or default.target != Target.BRIDGE:
            return
        [workspace] = await store.read(WorkspaceById(caller.workspace_id))
        stretch = (caller.workspace_id, workspace.first_log_id - 1, workspace.last_log_id)
        unread = await store.read(WakeReplay(*stretch, default.subscription_id, await store.now(), CAUGHT_UP))
        if unread:
            found = tuple(find_messages(unread))
            await store.submit(CatchUp(caller.workspace_id, default.subscription_id, found))

    async def list(self, caller: Caller, query: wire.WakeSubscriptionsQuery) -> wire.WakeSubscriptions:
        handle = query.handle or ("" if caller.is_human else caller.handle)
        if handle != caller.handle and not caller.is_human:
            raise Forbidden("ROLE_FORBIDDEN", "An agent sees its own wake subscriptions only.", rule="subscriptions")
        after_handle, _, after_id = (query.after or "").partition("/")
        asked: SubscriptionsOf | EverySubscription
        if handle:
            asked = SubscriptionsOf(caller.workspace_id, handle, after_id, query.limit + 1)
        else:
            asked = EverySubscription(caller.workspace_id, after_handle, after_id, query.limit + 1)
        rows = await self._context.store.read(asked)
        page, more = rows[: query.limit], len(rows) > query.limit
        return wire.WakeSubscriptions(
            subscriptions=[view(row) for row in page],
            has_more=more,
            next=f"{page[-1].handle}/{page[-1].subscription_id}" if more else None,
        )

    async def get(self, caller: Caller, subscription_id: str) -> wire.WakeSubscriptionView:
        row = await self._find(caller, subscription_id)
        store = self._context.store
        held = await store.read(HeldWakes(caller.workspace_id, row.handle, await store.now()))
        place = (caller.workspace_id, consumer_of(subscription_id), STREAM, "")
        cursors = await store.read(CursorFor(*place))
        return msgspec.structs.replace(
            view(row),
            held=[_held(one) for one in held if one.subscription_id == subscription_id],
            cursor=_cursor(cursors[0] if cursors else nowhere(*place)),
        )

    async def change(self, caller: Caller, subscription_id: str, request: wire.ChangeWake) -> wire.WakeSubscriptionView:
        check_claims(caller, request)
        said = request.harness_target_metadata
        self._check(said.url)
        shown, sealed = self._keys.new()
        change = Change(
            trigger=request.trigger,
            filters=UNSET if isinstance(request.filters, UnsetType) else _filters(request.filters),
            target=request.harness_target,
            url=said.url,
            coalesce_window=said.coalesce_window,
            daemon_socket_path=said.daemon_socket_path,
            wake_policy=said.wake_policy,
            full_body=said.full_body,
            sealed_key=sealed,
        )
        owner = (await self._find(caller, subscription_id)).handle
        row = await self._context.store.submit(Update(caller, subscription_id, owner, change))
        return view(row, signing_key=shown if row.signing_key == sealed else UNSET)

    async def unsubscribe(self, caller: Caller, subscription_id: str) -> wire.WakeUnsubscribed:
        row = await self._context.store.submit(Unsubscribe(caller, subscription_id))
        return wire.WakeUnsubscribed(subscription_id=row.subscription_id, status="removed")

    async def resume(self, caller: Caller, subscription_id: str) -> wire.WakeSubscriptionView:
        return view(await self._context.store.submit(Resume(caller, subscription_id)))

    async def rotate_key(self, caller: Caller, subscription_id: str) -> wire.WakeKey:
        shown, sealed = self._keys.new()
        row = await self._context.store.submit(RotateKey(caller, subscription_id, sealed, self._keys.overlap))
        until = row.previous_key_until
        return wire.WakeKey(
            subscription_id=row.subscription_id,
            signing_key=shown,
            previous_key_until=None if until is None else to_datetime(until),
        )

    async def _find(self, caller: Caller, subscription_id: str) -> Subscription:
        rows = await self._context.store.read(OneSubscription(caller.workspace_id, subscription_id))
        if not rows or not may_manage(caller, rows[0]):
            raise unknown(subscription_id)
        return rows[0]

    def _check(self, url: str | UnsetType) -> None:
        """What can be known early is said early; the address is checked again when it is called."""
        if not isinstance(url, UnsetType):
            check_url(url, self._allowed)


def _known(said: T | UnsetType | None) -> T | None:
    return None if isinstance(said, UnsetType) else said


def _filters(given: wire.WakeFilters) -> Filters:
    return Filters(
        tagged_concepts=tuple(given.tagged_concepts),
        priority=given.priority,
        sender_filter=tuple(given.sender_filter),
        in_reply_to_filter=tuple(given.in_reply_to_filter),
    )


def view(row: Subscription, signing_key: str | UnsetType = UNSET) -> wire.WakeSubscriptionView:
    metadata, until = parse_metadata(row.metadata), row.previous_key_until
    end = UNSET if metadata.callback is None else metadata.callback.ends_at
    return wire.WakeSubscriptionView(
        subscription_id=row.subscription_id,
        handle=row.handle,
        trigger=row.trigger,
        filters=filters_view(row),
        harness_target=row.target,
        harness_target_metadata=wire.TargetMetadataView(
            url=row.url,
            coalesce_window=row.coalesce_window,
            daemon_socket_path=metadata.daemon_socket_path,
            wake_policy=row.wake_policy,
            full_body=metadata.full_body,
        ),
        status=row.status,
        reason=row.status_reason,
        failures=row.failures,
        is_default=metadata.is_default,
        from_log_id=row.from_log_id,
        previous_key_until=None if until is None else to_datetime(until),
        created_at=to_datetime(row.created_at),
        updated_at=to_datetime(row.updated_at),
        metrics=_metrics(row),
        signing_key=signing_key,
        ends_at=to_datetime(end) if isinstance(end, int) else end,
    )


def filters_view(row: Subscription) -> wire.WakeFilters:
    filters = parse_filters(row.filters)
    return wire.WakeFilters(
        tagged_concepts=list(filters.tagged_concepts),
        priority=filters.priority,  # type: ignore[arg-type] # it came in through the same type
        sender_filter=list(filters.sender_filter),
        in_reply_to_filter=list(filters.in_reply_to_filter),
    )


def _metrics(row: Subscription) -> wire.WakeMetrics:
    return wire.WakeMetrics(
        events=row.events,
        rings=row.rings,
        coalesced=row.coalesced,
        window_used_seconds=row.window_used / SECOND,
        latency_average_seconds=row.latency_total / row.confirmed / SECOND if row.confirmed else None,
        latency_most_seconds=row.latency_most / SECOND,
    )


def _held(row: Held) -> wire.HeldView:
    until = None if row.until is None else to_datetime(row.until)
    return wire.HeldView(state=row.state, reason=row.reason, count=row.count, until=until)


def _cursor(row: Cursor) -> wire.CursorView:
    delivered = None if row.last_delivered_at is None else to_datetime(row.last_delivered_at)
    return wire.CursorView(
        consumer_id=row.consumer_id,
        stream_name=row.stream_name,
        subject_id=row.subject_id,
        last_sequence=row.last_sequence,
        last_delivery_id=row.last_delivery_id,
        last_delivered_at=delivered,
        last_error=row.last_error,
        updated_at=to_datetime(row.updated_at) if row.updated_at else None,
    )
