"""The heartbeat's rhythm: a look now and then at agents that no push reaches.  `flow/pulse.py` says what a pulse is."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from wakeline.core.instant import plus
from wakeline.core.queries import AllWorkspaces
from wakeline.core.store import Store
from wakeline.core.wake_queries import PulsesDue
from wakeline.errors import WakelineError
from wakeline.flow.pulse import Pulse

_log = logging.getLogger(__name__)

AT_ONCE = 200


async def beat(store: Store, every: timedelta, look_every: float, *, bypass: bool) -> None:
    """Every node may run it: the rows say who was looked after when."""
    while True:
        await asyncio.sleep(look_every)
        try:
            for workspace in await store.read(AllWorkspaces()):
                await pulse(store, workspace.workspace_id, every, bypass=bypass)
        except WakelineError as error:
            _log.warning("the heartbeat is postponed: %s", error.message)


async def pulse(store: Store, workspace_id: int, every: timedelta, *, bypass: bool) -> list[str]:
    """One look at one workspace.  Answers who got a pulse."""
    now = await store.now()
    before = plus(now, -every)
    rows = await store.read(PulsesDue(workspace_id, before, now, AT_ONCE))
    unread = {row.handle: row.unread for row in rows}
    return await store.submit(Pulse(workspace_id, unread, before, bypass)) if unread else []
