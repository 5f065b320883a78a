"""Stage 6, sweep: expiry, retention, search indexing, keep-alives.  Everything here is safe to run again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from wakeline.core.guardrail import Guardrails
from wakeline.core.instant import plus
from wakeline.core.queries import AllWorkspaces
from wakeline.core.store import Store
from wakeline.errors import Unavailable
from wakeline.runtime.deadlines import chase_answers
from wakeline.service import Hub

_log = logging.getLogger(__name__)

DAY = timedelta(days=1)
PRUNE_EVERY = timedelta(hours=1)
REFUSALS_KEPT = 90 * DAY
WAITS_KEPT = timedelta(minutes=5)  # over, but the same question may be asked on
INDEX_EVERY = 1.0
INDEX_LAG = 50_000
FOLLOW_AGAIN = 1.0


class Retention:
    def __init__(
        self, store: Store, *, log_days: int, log_rows: int, closed_thread_days: int, delivery_days: int
    ) -> None:
        self._store = store
        self._log_days = log_days
        self._log_rows = log_rows
        self._closed_thread_days = closed_thread_days
        self._delivery_days = delivery_days

    async def apply(self, workspace_id: int) -> tuple[int, int, int]:
        """What the settings ask for; answers how many log rows, messages and sessions went."""
        now = await self._store.now()
        before = plus(now, -self._log_days * DAY) if self._log_days else None
        rows = await self._store.prune(workspace_id, before=before, keep=self._log_rows or None)
        messages = sessions = 0
        if self._closed_thread_days:
            closed_before = plus(now, -self._closed_thread_days * DAY)
            messages = await self._store.forget_closed(workspace_id, closed_before=closed_before)
        if before is not None:
            sessions = await self._store.forget_sessions(workspace_id, ended_before=before)
        return rows, messages, sessions

    async def apply_everywhere(self) -> None:
        for workspace in await self._store.read(AllWorkspaces()):
            await self.apply(workspace.workspace_id)
        now = await self._store.now()
        await self._store.forget_old_refusals(plus(now, -REFUSALS_KEPT))
        await self._store.forget_wakes(plus(now, -self._delivery_days * DAY))


async def sweep(
    store: Store, retention: Retention, rails: Guardrails, every_seconds: float, clock: Callable[[], int]
) -> None:
    """Expire and chase answers now and then, prune every hour.  A store that is away is tried again next time."""
    pruned_at = 0
    while True:
        try:
            await store.lapse_expired()
            await chase_answers(store, rails)
            await store.forget_old_waits(plus(await store.now(), -WAITS_KEPT))
            if clock() >= plus(pruned_at, PRUNE_EVERY):
                await retention.apply_everywhere()
                pruned_at = clock()
        except Unavailable as error:
            _log.warning("sweep postponed: %s", error.message)
        await asyncio.sleep(every_seconds)


class Indexer:
    """Follows the log into the search index when posting pauses, or when it has fallen far behind.

    A search follows the log by itself first, so waiting costs no result: it only keeps indexing out of the way.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rings = 0
        store.on_commit(self._ring)

    def _ring(self, _workspace_id: int) -> None:
        self._rings += 1

    async def run(self) -> None:
        indexed = -1
        seen = -1
        while True:
            await asyncio.sleep(INDEX_EVERY)
            quiet = self._rings == seen
            seen = self._rings
            if seen == indexed or not (quiet or seen - indexed > INDEX_LAG):
                continue
            try:
                await self._store.index()
                indexed = seen
            except Unavailable as error:
                _log.warning("indexing postponed: %s", error.message)


async def follow(hub: Hub) -> None:
    """Run the hub.  After a store was away it goes on from where it was, so nothing is skipped."""
    while True:
        try:
            await hub.run()
        except Unavailable as error:
            _log.warning("following the log postponed: %s", error.message)
            await asyncio.sleep(FOLLOW_AGAIN)
            hub.look(0)


async def keep_alive(hub: Hub, every_seconds: float, clock: Callable[[], int]) -> None:
    while True:
        await asyncio.sleep(every_seconds)
        hub.keep_alive(clock())
