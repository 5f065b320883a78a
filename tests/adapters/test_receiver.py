"""The receiver that the guide shows, and what it makes of what the server sends."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tools.snippets import SNIPPETS
from wakeline.adapters.webhook import Webhooks
from wakeline.core.destination import parse_networks
from wakeline.core.parcel import Accepted, Parcel, Refused, Result
from wakeline.core.signature import encode_key

KEY, OLD_KEY = b"k" * 32, b"o" * 32
BODY = msgspec.json.encode(
    {
        "schemaVersion": "1.0",
        "eventType": "wake/sent_to_me",
        "eventId": "E",
        "logId": 7,
        "agentIdentity": "@bob",
        "subscriptionId": "S",
        "payload": {"subject": "hello"},
        "emittedAt": "2027-01-15T07:59:58.000Z",
    }
)


@asynccontextmanager
async def receiver() -> AsyncIterator[str]:
    place = importlib.util.spec_from_file_location("receiver", SNIPPETS / "receiver.py")
    assert place is not None
    assert place.loader is not None
    module: Any = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    runner = web.AppRunner(module.make_app([]))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/wake"
    await runner.cleanup()


async def bring(*keys: bytes) -> Result:
    webhooks = Webhooks(lambda: time.time_ns() // 1000, allowed=parse_networks(["127.0.0.0/8"]))
    async with receiver() as url:
        result = await webhooks.deliver(Parcel("D", "E", "S", 1, "a2a-webhook", url, BODY, keys))
    await webhooks.close()
    return result


@pytest.mark.parametrize("keys", [(KEY,), (b"newer" * 8, KEY)])
async def test_the_receiver_of_the_guide_takes_what_is_signed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], keys: tuple[bytes, ...]
) -> None:
    monkeypatch.setenv("WAKE_KEY", encode_key(KEY))
    assert await bring(*keys) == Accepted(202, "HTTP 202")
    assert "woken by wake/sent_to_me {'subject': 'hello'}" in capsys.readouterr().out


async def test_the_receiver_of_the_guide_refuses_another_s_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKE_KEY", encode_key(KEY))
    assert await bring(OLD_KEY) == Refused(401, "rejected", "HTTP 401 no key made this signature")
