"""A host with a bridge, step by step: it claims when told to, and the test decides what comes of each ring."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.store.bells import Bell
from tests.store.builders import agent, bridge, new_id, send
from tests.store.places import Place, SqlitePlace
from wakeline import wire
from wakeline.core.bridge_queries import (
    LapsedRings,
    MarkedRings,
    RungThreads,
    SessionRings,
    UnreadWakes,
    WaitingRings,
    WakesToPoke,
)
from wakeline.core.delivery import Delivery, DeliveryStep
from wakeline.core.log import Workspace
from wakeline.core.observation import Injected, Observation, Processed, Withdrawn
from wakeline.core.parcel import Accepted, Result, mark_of
from wakeline.core.principal import Caller
from wakeline.core.queries import SessionById
from wakeline.core.session import Session
from wakeline.core.store import Store
from wakeline.core.subscription import Subscription, Target
from wakeline.core.wake_queries import DeliverySteps, LeasedDeliveries
from wakeline.core.waking import latest_poke
from wakeline.flow.announce import Announce
from wakeline.flow.attend import Attention, Heartbeat
from wakeline.flow.observe import Observe, Poke
from wakeline.flow.plan import Stamp
from wakeline.flow.ring import ClaimRings, Lapse, RingSettled, SettleRing, ToRing
from wakeline.flow.tend import Tend

ROUTE: dict[str, Any] = {"target": Target.BRIDGE, "url": None, "signing_key": None, "coalesce_window": 0}
HOST = "h"
ATTENTION = Attention()


class Host:
    """The bridge `bridge-h1` on the host `h`, and @bob's session there."""

    def __init__(self, store: Store, workspace: Workspace, place: Place, **rules: Any) -> None:
        self._place = place
        self.bell = Bell(store, workspace, **rules)
        self.store, self.workspace, self.rules = store, workspace, self.bell.rules
        self.caller = bridge(workspace, HOST)
        self.bridge_id = "bridge-h1"
        self.row: Subscription

    async def open(self) -> None:
        await self.tend()
        self.row = await self.bell.subscribe("@bob", **ROUTE)
        await self.beat("idle")

    async def tend(self, *, bridge_id: str | None = None, started: bool = True, caller: Caller | None = None) -> bool:
        name = bridge_id or self.bridge_id
        leased = await self.store.read(LeasedDeliveries(name)) if started else []
        mine = tuple((row.row_id, row.subscription_id) for row in leased)
        return await self.store.submit(Tend(caller or self.caller, name, "1", ("seat",), started, mine))

    async def beat(self, presence: str, **said: Any) -> Session:
        words = {"harness": "reference", "transport": "seat", "native_id": "n1", "host": HOST, **said}
        request = msgspec.convert({**words, "presence": presence}, wire.HeartbeatSession)
        beat = Heartbeat(agent(self.workspace, "@bob"), request, new_id(), ATTENTION)
        return await self.store.submit(beat)

    def tick(self) -> None:
        if isinstance(self._place, SqlitePlace):
            self._place.now += 1  # the other one's clock goes by itself

    async def mail(self, **fields: Any) -> str:
        sent = await send(self.store, agent(self.workspace, "@ann"), "@bob", **fields)
        await self.bell.match()
        return sent.message_id

    # -- rings --------------------------------------------------------------------------------------------------------

    async def claim(self, *, host: str = HOST, bridge_id: str | None = None) -> list[ToRing]:
        rows = await self.store.read(WaitingRings(self.workspace.workspace_id, host, 20))
        found = tuple((row.delivery_id, row.subscription_id, row.session_id) for row in rows)
        name = bridge_id or self.bridge_id
        return await self.store.submit(ClaimRings(bridge(self.workspace, host), name, found, self.rules, stamp(name)))

    async def settle(self, ring: ToRing, result: Result | None = None, *, fence: int | None = None) -> RingSettled:
        delivery = ring.delivery
        return await self.store.submit(
            SettleRing(
                self.caller,
                delivery.delivery_id,
                delivery.subscription_id,
                ring.session.session_id,
                delivery.fence if fence is None else fence,
                result or Accepted(None, "taken"),
                self.rules,
                stamp(),
            )
        )

    async def observe(
        self, seen: Observation, *, bridge_id: str | None = None, host: str = HOST, attention: Attention = ATTENTION
    ) -> bool:
        found, threads = [], []
        for mark in seen.marks if isinstance(seen, Injected | Processed | Withdrawn) else ():
            rows = await self.store.read(MarkedRings(self.workspace.workspace_id, mark.removeprefix("wl-")))
            found += [(row.delivery_id, row.subscription_id) for row in rows]
            threads += await self.store.read(RungThreads(self.workspace.workspace_id, mark.removeprefix("wl-")))
        name = bridge_id or self.bridge_id
        caller = bridge(self.workspace, host)
        self.tick()
        return await self.store.submit(
            Observe(caller, name, seen, tuple(found), self.rules, attention, stamp(), tuple(threads))
        )

    async def announce(self, session_id: str) -> list[str] | None:
        now = await self.store.now()
        found = await self.store.read(UnreadWakes(self.workspace.workspace_id, "@bob", now, 100))
        under_way = tuple(await self.store.read(SessionRings(session_id)))
        place = (self.caller, self.bridge_id, session_id)
        return await self.store.submit(Announce(*place, "t9", tuple(found), "@bob", under_way, self.rules, stamp()))

    # -- what the server does by itself -------------------------------------------------------------------------------

    async def lapse(self) -> int:
        now = await self.store.now()
        rows = await self.store.read(LapsedRings(now, now - self.rules.outstanding_seconds * 1_000_000, 100))
        found = tuple((row.row_id, row.subscription_id) for row in rows)
        await self.store.submit(Lapse(self.workspace.workspace_id, found, self.rules, stamp()))
        return len(found)

    async def poke(self) -> int:
        now = await self.store.now()
        rows = await self.store.read(WakesToPoke(now, latest_poke(self.rules, now), 100))
        wakes = tuple((row.subscription_id, row.log_id) for row in rows)
        rung = tuple({row.delivery_id for row in rows})
        await self.store.submit(Poke(self.workspace.workspace_id, wakes, rung, self.rules, stamp()))
        return len(rows)

    async def plan(self) -> None:
        await self.bell.flush_these(self.row.subscription_id)

    # -- what is stored -----------------------------------------------------------------------------------------------

    async def session(self, session_id: str) -> Session:
        [row] = await self.store.read(SessionById(session_id))
        return row

    async def deliveries(self) -> list[Delivery]:
        """Oldest first."""
        return (await self.bell.deliveries())[::-1]

    async def ladder(self, ring: ToRing) -> list[str]:
        rows: list[DeliveryStep] = await self.store.read(DeliverySteps(ring.delivery.delivery_id))
        return [row.step for row in rows]

    async def outcomes(self) -> list[tuple[str, str | None]]:
        return [(row.step, row.outcome) for row in await self.deliveries()]


def stamp(node: str = "") -> Stamp:
    return Stamp(new_id(), node)


def mark(ring: ToRing) -> str:
    return mark_of(ring.delivery.event_id)
