"""Deliveries as evidence: list them, look at each step, send again what did not arrive, replay from a position."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from wakeline import wire
from wakeline.core.delivery import LAST, Delivery, DeliveryStep
from wakeline.core.event import Content, Group
from wakeline.core.instant import to_datetime
from wakeline.core.log import Position
from wakeline.core.principal import Caller
from wakeline.core.subscription import Subscription, Trigger
from wakeline.core.subscription_queries import OneSubscription
from wakeline.core.wake_queries import (
    DeliveryFor,
    DeliveryList,
    DeliverySteps,
    WakeReplay,
    WakeRows,
)
from wakeline.errors import Forbidden, NotFound
from wakeline.flow.amend import may_manage, unknown
from wakeline.flow.find import Occurrence, find_messages, find_occurrence, occurrence
from wakeline.flow.match import Found
from wakeline.flow.plan import Stamp
from wakeline.flow.replay import Resync, Retry
from wakeline.service.context import Context, check_claims
from wakeline.service.log import Logs

PAGE = 2_000
_object = msgspec.json.Decoder(dict[str, Any]).decode


class Deliveries:
    def __init__(self, context: Context, logs: Logs) -> None:
        self._context = context
        self._logs = logs

    async def list(self, caller: Caller, query: wire.DeliveriesQuery) -> wire.Deliveries:
        handle = query.handle or ("" if caller.reads_everything else caller.handle)
        if handle != caller.handle and not caller.reads_everything:
            raise Forbidden("ROLE_FORBIDDEN", "An agent sees its own deliveries only.", rule="deliveries")
        asked = DeliveryList(
            caller.workspace_id,
            handle,
            query.subscription_id or "",
            query.outcome or "",
            query.before or "",
            query.limit + 1,
        )
        rows = await self._context.store.read(asked)
        shown = rows[: query.limit]
        more = len(rows) > query.limit
        return wire.Deliveries(
            deliveries=[_view(row) for row in shown], has_more=more, next=shown[-1].delivery_id if more else None
        )

    async def get(self, caller: Caller, delivery_id: str) -> wire.DeliveryView:
        rows = await self._context.store.read(DeliveryFor(caller.workspace_id, delivery_id))
        if not rows or not (rows[0].handle == caller.handle or caller.reads_everything):
            raise NotFound("DELIVERY_NOT_FOUND", f"There is no delivery {delivery_id}.")
        steps = await self._context.store.read(DeliverySteps(delivery_id))
        private = rows[0].handle == caller.handle or caller.is_human
        return _view(rows[0], [_step(row, private=private) for row in steps], _object(rows[0].body))

    async def retry(self, caller: Caller, delivery_id: str) -> wire.DeliveryView:
        rows = await self._context.store.read(DeliveryFor(caller.workspace_id, delivery_id))
        session_id = rows[0].session_id if rows else None
        again = await self._context.store.submit(Retry(caller, delivery_id, self._stamp(), session_id))
        return await self.get(caller, again.delivery_id)

    def _stamp(self) -> Stamp:
        """Without claims: the waker takes it up when it hears of the commit."""
        return Stamp(self._context.new_id(), "")

    # -- replay -------------------------------------------------------------------------------------------------------

    async def resync(self, caller: Caller, subscription_id: str, request: wire.Resync) -> wire.Resynced:
        check_claims(caller, request)
        subscription = await self._subscription(caller, subscription_id)
        epoch = request.epoch
        position = (
            "0"
            if request.since_log_id == 0
            else str(Position(epoch or await self._epoch(caller), request.since_log_id))
        )
        start = await self._logs.start(caller, position)
        until = (await self._logs.start(caller, None)).after
        content = await self._collect(caller, subscription, start.after, until)
        delivery_id = await self._context.store.submit(Resync(caller, subscription_id, content, self._stamp()))
        return wire.Resynced(
            subscription_id=subscription_id,
            events_replayed=content.events if content is not None else 0,
            last_log_id=until,
            clamped=start.clamped,
            delivery_id=delivery_id,
        )

    async def _epoch(self, caller: Caller) -> str:
        return (await self._logs.start(caller, None)).epoch

    async def _subscription(self, caller: Caller, subscription_id: str) -> Subscription:
        rows = await self._context.store.read(OneSubscription(caller.workspace_id, subscription_id))
        if not rows or not may_manage(caller, rows[0]):
            raise unknown(subscription_id)
        return rows[0]

    async def _collect(self, caller: Caller, subscription: Subscription, after: int, until: int) -> Content | None:
        """What the subscription asks for now, of what is still unread, as one digest."""
        events = self._messages if subscription.trigger == Trigger.SENT_TO_ME else self._occurrences
        counts: dict[str, int] = {}
        latest: dict[str, Found] = {}
        since: int | None = None
        async for found in events(caller, subscription, after, until):
            counts[found.event_type] = counts.get(found.event_type, 0) + 1
            latest[found.event_type] = found
            since = found.occurred_at if since is None else min(since, found.occurred_at)
        if since is None:
            return None
        groups = tuple(Group(kind, count, latest[kind].payload) for kind, count in counts.items())
        return Content(groups, max(found.log_id for found in latest.values()), since)

    async def _messages(
        self, caller: Caller, subscription: Subscription, after: int, until: int
    ) -> AsyncIterator[Found]:
        store = self._context.store
        now = await store.now()
        while True:
            asked = WakeReplay(caller.workspace_id, after, until, subscription.subscription_id, now, PAGE)
            rows = await store.read(asked)
            for found in find_messages(rows):
                yield found
            if len(rows) < PAGE:
                return
            after = rows[-1].log_id

    async def _occurrences(
        self, caller: Caller, subscription: Subscription, after: int, until: int
    ) -> AsyncIterator[Found]:
        for start in range(after, until, PAGE):
            stretch = WakeRows(caller.workspace_id, start, min(until, start + PAGE))
            for row in await self._context.store.read(stretch):
                what = occurrence(row)
                if (
                    not isinstance(what, Occurrence)
                    or what.trigger != subscription.trigger
                    or subscription.handle not in what.receivers
                ):
                    continue
                anywhere = msgspec.structs.replace(subscription, from_log_id=0)
                for found in find_occurrence(what, subscription.handle, [anywhere]):
                    yield found


def _view(
    row: Delivery, steps: list[wire.StepView] | UnsetType = UNSET, body: dict[str, Any] | UnsetType = UNSET
) -> wire.DeliveryView:
    return wire.DeliveryView(
        delivery_id=row.delivery_id,
        subscription_id=row.subscription_id,
        handle=row.handle,
        session_id=row.session_id,
        target=row.target,
        event_id=row.event_id,
        event_type=row.event_type,
        log_id=row.log_id,
        events=row.events,
        replay=bool(row.replay),
        step=row.step,
        outcome=row.outcome,
        reason=row.reason,
        attempts=row.attempts,
        next_attempt_at=None if row.next_attempt_at is None else to_datetime(row.next_attempt_at),
        occurred_at=to_datetime(row.occurred_at),
        created_at=to_datetime(row.created_at),
        settled_at=None if row.settled_at is None else to_datetime(row.settled_at),
        steps=steps,
        body=body,
    )


def _step(row: DeliveryStep, *, private: bool) -> wire.StepView:
    """What the agent's model said is its own and its human's business, also where others may see the rest."""
    detail = None if row.detail is None else _object(row.detail)
    if detail is not None and not private:
        detail.pop(LAST, None)
    return wire.StepView(
        number=row.number,
        at=to_datetime(row.at),
        step=row.step,
        attempt=row.attempt,
        detail=detail,
    )
