"""A receiver that hangs, through the waker and the real webhooks: it costs nobody else anything."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from tests.adapters.receivers import OK, Receiver, answers, hang
from tests.store.bells import Bell
from tests.store.builders import agent, open_workspace, send
from tests.store.places import START, SqlitePlace
from tests.store.wakers import Notes, pack, until, waking
from wakeline.adapters import webhook
from wakeline.adapters.webhook import Webhooks
from wakeline.core.destination import parse_networks
from wakeline.core.parcel import Adapter
from wakeline.core.subscription import Target

HOUR = 3600
MANY = webhook.CONNECTIONS + 10


@pytest.mark.guarantee("G-WEBHOOK-BOUNDED")
async def test_a_host_that_hangs_keeps_nobody_else_waiting(sqlite: SqlitePlace) -> None:
    store = await sqlite.open()
    workspace = await open_workspace(store, "@ann", "@bob", "@cat", "@dan")
    bell = Bell(store, workspace, at_once=False)
    webhooks = Webhooks(lambda: START, allowed=parse_networks(["127.0.0.0/8"]))
    pushed = Notes()
    routes: dict[str, Adapter] = {Target.WEBHOOK: webhooks, Target.MCP: pushed}
    patient = partial(pack, keys=(b"k" * 32,), timeout=timedelta(hours=1))
    async with Receiver(hang) as hanging, Receiver(answers(OK)) as healthy:
        for n in range(MANY):
            await bell.subscribe("@bob", url=hanging.url(f"/{n}"))
        await bell.subscribe("@cat", url=healthy.url())
        await bell.subscribe("@dan", target=Target.MCP, url=None, signing_key=None)
        rules: dict[str, Any] = {"lease_seconds": 2 * HOUR, "wake_budget_per_hour": 2 * MANY}
        async with waking(store, routes, pack=patient, here=frozenset({"@dan"}), **rules):
            await send(store, agent(workspace, "@ann"), "@bob")
            await until(lambda: _under_way(bell))
            await until(lambda: _is_busy(hanging))
            await send(store, agent(workspace, "@ann"), "@cat")
            await send(store, agent(workspace, "@ann"), "@dan")
            assert (await pushed.next()).handle == "@dan"
            await until(lambda: _arrived(healthy))
        assert hanging.most_open == 4


async def _under_way(bell: Bell) -> bool:
    return len(await bell.deliveries(handle="@bob", outcome="open", limit=2 * MANY)) == MANY


async def _is_busy(receiver: Receiver) -> bool:
    return receiver.open == 4


async def _arrived(receiver: Receiver) -> bool:
    return len(receiver.requests) == 1
