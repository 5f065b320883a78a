"""A node that wakes, step by step: it matches when told to, and the test decides what comes of each delivery."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tests.store.builders import new_id, open_workspace
from tests.store.places import SqlitePlace
from wakeline.core.delivery import Delivery
from wakeline.core.event import EVENTS
from wakeline.core.log import Workspace
from wakeline.core.parcel import Accepted, Result
from wakeline.core.picture import Needs, Picture
from wakeline.core.store import Store
from wakeline.core.subscription import Filters, Subscription, SubscriptionKey, Target, Trigger, match_keys, to_json
from wakeline.core.wake import Wake
from wakeline.core.wake_queries import DeliveryList, DueDeliveries, DueSubscriptions
from wakeline.core.waking import WakeRules
from wakeline.flow.at_once import AtOnce
from wakeline.flow.deliver import Claim, Settle, Settled
from wakeline.flow.match import Flush
from wakeline.flow.plan import Planned, Stamp
from wakeline.runtime.matcher import Matcher

FOREVER = 2**60
CLAIMS = frozenset({Target.WEBHOOK, Target.MCP})
URL = "https://receiver.example/wake"


class Plant(msgspec.Struct, frozen=True):
    """A subscription as it stands in the store, whatever led to it."""

    workspace_id: int
    subscription: Subscription

    def needs(self, needs: Needs) -> None:
        pass

    def decide(self, picture: Picture) -> None:
        row = self.subscription
        picture.put_subscription(row)
        for key in match_keys(msgspec.json.decode(row.filters, type=Filters)):
            picture.put_subscription_key(
                SubscriptionKey(row.workspace_id, row.handle, row.trigger, key, row.subscription_id, 1)
            )


def subscription(workspace: Workspace, handle: str, **fields: Any) -> Subscription:
    filters = fields.pop("filters", Filters())
    row = Subscription(
        subscription_id=new_id(), workspace_id=workspace.workspace_id, handle=handle, trigger=Trigger.SENT_TO_ME,
        filters=to_json(filters), route_key=new_id(), target=Target.WEBHOOK, url=URL, coalesce_window=None,
        metadata="{}", wake_policy="immediate", signing_key="sealed", previous_key=None, previous_key_until=None,
        status="active", status_reason=None, failures=0, from_log_id=0, created_at=0, updated_at=0,
    )  # fmt: skip
    return msgspec.structs.replace(row, **fields)


class Bell:
    """`at_once`: as far as the store can, which PostgreSQL cannot; there everything is found by the matcher."""

    def __init__(
        self, store: Store, workspace: Workspace, *, node: str = "local", at_once: bool = True, **rules: Any
    ) -> None:
        self.store, self.workspace = store, workspace
        self.rules = WakeRules(**rules)
        self.node = node
        self.here: frozenset[str] = frozenset()  # who is connected
        self.heard: tuple[str, ...] = EVENTS  # and what they can be told of
        self._planned: list[Planned] = []
        self.matcher = Matcher(store, self.rules, self._stamp, self._planned.extend)
        if at_once:
            store.follow_up(AtOnce(self.rules, node, CLAIMS), self._planned.extend, lambda _planned: None)

    def _stamp(self, _workspace_id: int, handles: set[str]) -> Stamp:
        heard = frozenset((handle, told) for handle in self.here & handles for told in self.heard)
        return Stamp(new_id(), self.node, CLAIMS, heard)

    def stamp(self) -> Stamp:
        return self._stamp(0, set(self.here))

    async def subscribe(self, handle: str, **fields: Any) -> Subscription:
        row = subscription(self.workspace, handle, **fields)
        await self.store.submit(Plant(self.workspace.workspace_id, row))
        return row

    async def match(self) -> list[Planned]:
        await self.matcher.follow(self.workspace.workspace_id)
        planned = list(self._planned)
        self._planned.clear()
        return planned

    async def flush(self) -> list[Planned]:
        """Plan what is due by now."""
        rows = await self.store.read(DueSubscriptions(await self.store.now(), 100))
        ids = tuple(row.subscription_id for row in rows)
        return await self.flush_these(*ids) if ids else []

    async def flush_these(self, *ids: str) -> list[Planned]:
        return await self.store.submit(Flush(self.workspace.workspace_id, ids, self.rules, self.stamp()))

    async def claim(self, *, restarted: bool = False, delivery_ids: tuple[str, ...] = ()) -> list[Planned]:
        rows = await self.store.read(DueDeliveries(Target.WEBHOOK, FOREVER, 100))
        ids = delivery_ids or tuple(row.row_id for row in rows)
        theirs = tuple(row.subscription_id for row in rows)
        command = Claim(self.workspace.workspace_id, ids, theirs, self.rules, self.stamp(), restarted=restarted)
        return await self.store.submit(command)

    async def settle(self, planned: Planned, result: Result | None = None) -> Settled:
        delivery = planned.delivery
        return await self.store.submit(
            Settle(
                self.workspace.workspace_id,
                delivery.delivery_id,
                delivery.subscription_id,
                delivery.fence,
                result or Accepted(200, "OK"),
                self.rules,
                self.stamp(),
            )
        )

    async def deliveries(self, **asked: Any) -> list[Delivery]:
        given = {"handle": "", "subscription_id": "", "outcome": "", "before": "", "limit": 100, **asked}
        return await self.store.read(DeliveryList(self.workspace.workspace_id, **given))

    async def wakes(self, row: Subscription) -> list[Wake]:
        """All of them, oldest first: also those that are done with."""
        found = await self.store.submit(Look(self.workspace.workspace_id, row.subscription_id))
        return sorted(found, key=lambda wake: wake.log_id)


async def a_bell(place: SqlitePlace, **rules: Any) -> Bell:
    """Where the test moves the clock."""
    store = await place.open()
    return Bell(store, await open_workspace(store, "@ann", "@bob", "@cat"), **rules)


class Look(msgspec.Struct, frozen=True):
    """What a planner would see of a subscription now."""

    workspace_id: int
    subscription_id: str

    def needs(self, needs: Needs) -> None:
        needs.plans.add(self.subscription_id)

    def decide(self, picture: Picture) -> list[Wake]:
        return list(picture.wakes.values())


class State(Look, frozen=True):
    def decide(self, picture: Picture) -> Any:
        return picture.subscriptions[self.subscription_id]


async def stored(bell: Bell, row: Subscription) -> Subscription:
    found: Subscription = await bell.store.submit(State(bell.workspace.workspace_id, row.subscription_id))
    return found


def body(planned: Planned) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(planned.delivery.body)
    return said
