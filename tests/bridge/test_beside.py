"""The bridge in a server's own process: a store that is away now and then ends neither of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from wakeline.core.queries import AllWorkspaces
from wakeline.errors import Internal, Unavailable
from wakeline.runtime import bootstrap, bridge_parts, clock
from wakeline.runtime.parts import Parts, assemble
from wakeline.runtime.settings import Settings, load
from wakeline.store.sqlite.store import SqliteStore

PATIENCE = 20.0


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """In a home of its own: this bridge looks for the harnesses of nobody."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CODEX_HOME", "WAKELINE_SEATS"):
        monkeypatch.delenv(name, raising=False)
    return load({}, {"WAKELINE_DATA": str(tmp_path / "data"), "HOME": str(tmp_path)})[0]


@pytest.fixture
async def parts(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Parts]:
    for name in ("AGAIN_SECONDS", "NEW_WORKSPACES_SECONDS"):
        monkeypatch.setattr(bridge_parts, name, 0.01)
    settings.data.mkdir()
    store = await SqliteStore.open(settings.data / "wakeline.db", clock.now)
    made = await assemble(settings, store)
    yield made
    await made.webhooks.close()
    await store.close()


class Faltering:
    """Reads as the store does, and fails when it is asked for the workspaces for the nth time."""

    def __init__(self, parts: Parts, failing: set[int]) -> None:
        self._read, self._failing = parts.store.read, failing
        self.asked = 0
        self.enough = asyncio.Event()

    async def __call__(self, query: Any) -> Any:
        if isinstance(query, AllWorkspaces):
            self.asked += 1
            if self.asked > max(self._failing) + 1:
                self.enough.set()
            if self.asked in self._failing:
                raise Unavailable("STORE_UNAVAILABLE", "The store is away.")
        return await self._read(query)


@pytest.mark.parametrize("nth", [1, 2, 3], ids=["at the start", "at the first look", "later"])
async def test_a_store_that_is_away_once_is_asked_again(
    parts: Parts, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, nth: int
) -> None:
    faltering = Faltering(parts, {nth})
    monkeypatch.setattr(parts.store, "read", faltering)
    bridge = asyncio.create_task(bootstrap._bridge(parts, settings))  # noqa: SLF001 - what the server runs
    enough = asyncio.create_task(faltering.enough.wait())
    await asyncio.wait([bridge, enough], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
    assert (enough.done(), bridge.done()) == (True, False)
    assert "the bridge cannot see the workspaces yet: The store is away." in caplog.text
    bridge.cancel()
    await asyncio.wait([bridge])


async def test_a_bridge_that_cannot_run_does_not_take_the_server_with_it(
    parts: Parts, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise Internal("INTERNAL", "Nothing can be attended.")

    monkeypatch.setattr(parts.store, "submit", broken)
    await asyncio.wait_for(bootstrap._bridge(parts, settings), PATIENCE)  # noqa: SLF001 - what the server runs
    assert "this server runs without a bridge: Nothing can be attended." in caplog.text
