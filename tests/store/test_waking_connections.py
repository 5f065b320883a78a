from __future__ import annotations

import asyncio
import json

from tests.store.bells import Bell
from tests.store.builders import agent, send
from tests.store.wakers import Notes, waking
from wakeline.core.event import DIGEST, PERMISSION_GRANTED, SENT_TO_ME
from wakeline.core.log import Workspace
from wakeline.core.store import Store
from wakeline.core.subscription import Target
from wakeline.core.waking import Why


async def test_a_connection_that_would_not_tell_of_an_event_is_none_for_it(store: Store, workspace: Workspace) -> None:
    bell = Bell(store, workspace)
    row = await bell.subscribe("@bob", target=Target.MCP, url=None, signing_key=None)
    bell.here, bell.heard = frozenset({"@bob"}), (PERMISSION_GRANTED, DIGEST)
    await send(store, agent(workspace, "@ann"), "@bob")
    assert await bell.match() == []
    assert [wake.reason for wake in await bell.wakes(row)] == [Why.NO_CONNECTION]
    bell.heard = (SENT_TO_ME,)
    [planned] = await bell.flush_these(row.subscription_id)
    assert planned.delivery.event_type == SENT_TO_ME


async def test_who_is_written_to_right_after_a_burst_for_others_is_told(store: Store, workspace: Workspace) -> None:
    """Only the ring of its commit makes the waker look at it: nobody supervises here, and nothing else happens."""
    notes, ann = Notes(), agent(workspace, "@ann")
    await Bell(store, workspace).subscribe("@bob", target=Target.MCP, url=None, signing_key=None)
    async with waking(store, {Target.MCP: notes}, here=frozenset({"@bob"}), wake_budget_per_hour=1_000):
        for pause in (0.0, 0.001, 0.005, 0.01, 0.015, 0.05):
            await asyncio.gather(*(send(store, ann, "@cat", f"{pause} {n}") for n in range(10)))
            await asyncio.sleep(pause)
            sent = await send(store, ann, "@bob", f"after {pause} s")
            assert json.loads((await notes.next()).body)["logId"] == sent.log_id
        assert notes.parcels.empty()
