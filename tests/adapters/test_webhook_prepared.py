"""A receiver is called before it is known whether it will be told anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.adapters.receivers import OK, Receiver, answers
from tests.adapters.test_webhook import LOOPBACK, Clock, parcel
from wakeline.adapters import webhook
from wakeline.adapters.webhook import Webhooks
from wakeline.core.parcel import Accepted, Failed

PATIENCE = 20


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def webhooks(clock: Clock) -> AsyncIterator[Webhooks]:
    route = Webhooks(clock, allowed=LOOPBACK)
    yield route
    await route.close()


async def test_what_is_prepared_is_called_once_and_told_nothing_before_it_is_delivered(webhooks: Webhooks) -> None:
    async with Receiver(answers(OK)) as receiver:
        webhooks.prepare(parcel(receiver.url()))
        await receiver.called.wait()
        assert receiver.requests == []
        assert await webhooks.deliver(parcel(receiver.url())) == Accepted(200, "HTTP 200 ok")
    assert (len(receiver.requests), receiver.most_open) == (1, 1)


async def test_what_is_released_is_said_before_it_is_delivered_and_once(webhooks: Webhooks) -> None:
    async with Receiver(answers(OK)) as receiver:
        one = parcel(receiver.url())
        webhooks.release(one.delivery_id)  # nothing is prepared
        webhooks.prepare(one)
        async with asyncio.timeout(PATIENCE):
            while not receiver.requests:
                webhooks.release(one.delivery_id)
                await asyncio.sleep(0.001)
        assert await webhooks.deliver(one) == Accepted(200, "HTTP 200 ok")
    assert (len(receiver.requests), receiver.most_open) == (1, 1)


async def test_what_is_released_before_it_is_picked_up_is_said_by_its_delivery(webhooks: Webhooks) -> None:
    async with Receiver(answers(OK)) as receiver:
        one = parcel(receiver.url())
        webhooks.prepare(one)
        webhooks.release(one.delivery_id)
        assert await webhooks.deliver(one) == Accepted(200, "HTTP 200 ok")
    assert len(receiver.requests) == 1


async def test_what_was_prepared_in_vain_is_hung_up_on_and_leaves_room(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "PREPARED_SECONDS", 0.1)
    route = Webhooks(clock, allowed=LOOPBACK, connections_per_host=1)
    async with Receiver(answers(OK)) as receiver:
        route.prepare(parcel(receiver.url(), delivery_id="never"))
        await receiver.called.wait()
        assert await route.deliver(parcel(receiver.url())) == Accepted(200, "HTTP 200 ok")
    await route.close()
    assert (len(receiver.requests), receiver.most_open) == (1, 1)


async def test_trouble_with_what_was_prepared_is_told_by_its_delivery(webhooks: Webhooks) -> None:
    async with Receiver(answers(OK)) as receiver:
        url = receiver.url()
    webhooks.prepare(parcel(url))
    result = await webhooks.deliver(parcel(url))
    assert isinstance(result, Failed)
    assert result.reason == "network"
    webhooks.prepare(parcel("http://10.0.0.1/"))
    refused = await webhooks.deliver(parcel("http://10.0.0.1/"))
    assert isinstance(refused, Failed)
    assert refused.reason == "address_refused"
