"""Looks again at what waits although nothing will tell when its wait is over.

Whoever ends a hold rings a doorbell, and a hold that ends by itself has a time.  But who rings may die before, and a
setting may have changed while nobody ran.  So every subscription with something to ring is planned again from time to
time: all of them at the start, then some in every round, in turn, so that nobody is passed over however many there are.
Planning what must still wait changes nothing.

The clock may be set back, too, and every time that was written before lies too far ahead then.  A plan makes new ones;
deliveries that are under way are looked for.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence

from wakeline.core.instant import SECOND
from wakeline.core.store import Store
from wakeline.core.subscription import Target
from wakeline.core.wake_queries import DistantDeliveries, Due, UnrungSubscriptions
from wakeline.core.waking import WakeRules
from wakeline.flow import retime
from wakeline.flow.retime import Retime

AT_ONCE = 100
PAGES = 10  # of one round
CARRIED = (Target.WEBHOOK, Target.MCP, Target.BRIDGE)

Flush = Callable[[Sequence[Due]], Awaitable[None]]


class Supervisor:
    def __init__(self, store: Store, rules: WakeRules, flush: Flush) -> None:
        self._store = store
        self._rules = rules
        self._flush = flush
        self._after = ""  # the last subscription of this turn that was looked at
        self._seen_all = False

    async def look(self) -> None:
        for target in CARRIED:
            await self._put_right(target)
        for _ in range(PAGES if self._seen_all else sys.maxsize):
            if not await self._look_at_page():
                return

    async def _put_right(self, target: Target) -> None:
        for _ in range(PAGES):
            after = retime.latest(self._rules, await self._store.now())
            rows = await self._store.read(DistantDeliveries(target, after, AT_ONCE))
            for workspace_id in {row.workspace_id for row in rows}:
                theirs = tuple(row.row_id for row in rows if row.workspace_id == workspace_id)
                await self._store.submit(Retime(workspace_id, theirs, self._rules))
            if len(rows) < AT_ONCE:
                return

    async def _look_at_page(self) -> bool:
        """Answers whether there are more."""
        soon = await self._store.now() + self._rules.supervisor_seconds * SECOND
        rows = await self._store.read(UnrungSubscriptions(self._after, soon, AT_ONCE))
        more = len(rows) == AT_ONCE
        self._after = rows[-1].subscription_id if more else ""  # first: what fails must not keep the others waiting
        stranded = [row for row in rows if row.stranded]
        await self._flush(
            [Due(row.workspace_id, row.subscription_id, row.subscription_id, row.handle, 0) for row in stranded]
        )
        self._seen_all = self._seen_all or not more
        return more
