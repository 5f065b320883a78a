"""A real waker over a store, whose adapters only note what they are given to bring."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.store.builders import new_id
from wakeline.core.event import SENT_TO_ME
from wakeline.core.parcel import Accepted, Adapter, Parcel, Result
from wakeline.core.store import Store
from wakeline.core.subscription import Target
from wakeline.core.waking import WakeRules
from wakeline.flow.plan import Planned
from wakeline.runtime.waker import Waker


class Notes:
    """Takes everything, unless it is told what comes of the first attempts."""

    def __init__(self, first: Result | None = None) -> None:
        self.parcels: asyncio.Queue[Parcel] = asyncio.Queue()
        self._first = first

    async def deliver(self, parcel: Parcel) -> Result:
        self.parcels.put_nowait(parcel)
        return self._first if self._first is not None and parcel.attempt == 1 else Accepted(200, "OK")

    async def next(self) -> Parcel:
        async with asyncio.timeout(20):
            return await self.parcels.get()


class Listeners:
    """These are connected and hear of mail; hints are for nobody."""

    def __init__(self, handles: frozenset[str]) -> None:
        self._handles = handles

    def heard(self, _workspace_id: int, handle: str) -> frozenset[str]:
        return frozenset({SENT_TO_ME}) if handle in self._handles else frozenset()

    def push(self, _workspace_id: int, _handle: str, _body: bytes) -> int:
        return 0


def pack(planned: Planned, **fields: Any) -> Parcel:
    delivery, subscription = planned.delivery, planned.subscription
    said: dict[str, Any] = {"handle": delivery.handle, **fields}
    return Parcel(
        delivery.delivery_id,
        delivery.event_id,
        delivery.subscription_id,
        delivery.attempts,
        delivery.target,
        subscription.url,
        delivery.body.encode(),
        workspace_id=delivery.workspace_id,
        **said,
    )


@asynccontextmanager
async def waking(
    store: Store,
    adapters: Mapping[str, Adapter] | None = None,
    *,
    node: str = "local",
    pack: Callable[[Planned], Parcel] = pack,
    here: frozenset[str] = frozenset(),
    **rules: Any,
) -> AsyncIterator[Waker]:
    """It looks at everything at the start, and then not again before the test is over, unless the rules say so."""
    waker = Waker(
        store,
        WakeRules(**{"supervisor_seconds": 3600, "coalesce_seconds": 0, **rules}),
        adapters or {Target.WEBHOOK: Notes(), Target.MCP: Notes()},
        node=node,
        new_id=new_id,
        pack=pack,
        connections=Listeners(here),
        monotonic=time.monotonic,
    )
    running = asyncio.create_task(waker.run())
    try:
        yield waker
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(check: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(20):
        while not (found := await check()):  # noqa: ASYNC110 - nothing rings when another one's write is there
            await asyncio.sleep(0.01)
    return found
