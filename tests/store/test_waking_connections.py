from __future__ import annotations

from tests.store.bells import Bell
from tests.store.builders import agent, send
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
