"""Bridge or server are killed at any moment while a session is rung: what was lost is told once more, and not twice."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from tests.bridge.alone import Alone, free_port, new_token
from tests.bridge.household import House, eventually
from tests.chaos.harness import SETTINGS, Harness
from wakeline.errors import Unavailable
from wakeline.testing.server import ServerProcess
from wakeline.wire import DeliveryView, HeldView

pytestmark = pytest.mark.slow

MOST_SECONDS = 0.8  # from the first message of a round to the kill: a whole wake fits into it
PATIENCE = 60.0


class Scene:
    def __init__(self, house: House, bridge: Alone, dice: random.Random) -> None:
        self.house, self.bridge, self.dice = house, bridge, dice
        self.harness = Harness(house, dice, bridge.data)
        self.sent: list[str] = []

    async def round(self, kill: Callable[[], None]) -> None:
        """A few messages, one kill, and then peace.  Each message rings once at most; the kill may cost one more."""
        rung = len(self.harness.rung_marks)
        some = self.dice.randrange(1, 4)
        killing = asyncio.create_task(self._kill(kill))
        for _ in range(some):
            self.sent.append(await self._mail(f"mail-{len(self.sent)}"))
            await asyncio.sleep(self.dice.uniform(0, 0.2))
        await killing
        try:
            await eventually(self._is_at_peace, PATIENCE)
        except TimeoutError:
            raise AssertionError(f"there is no peace: {await self.left()}") from None
        assert len(self.harness.rung_marks) - rung <= some + 1, "a kill costs one doorbell at most"

    async def _mail(self, key: str) -> str:
        """With its key, again until it is answered."""
        while True:
            with contextlib.suppress(Unavailable):
                return await self.house.mail(idempotency_key=key)

    async def _kill(self, kill: Callable[[], None]) -> None:
        await asyncio.sleep(self.dice.uniform(0, MOST_SECONDS))  # where it is killed is the point
        await asyncio.to_thread(kill)

    async def _is_at_peace(self) -> bool:
        """All is read, and nothing is under way or held."""
        try:
            return not [one for one in await self.left() if one]
        except Unavailable:
            return False

    async def left(self) -> tuple[list[str], list[DeliveryView], list[HeldView]]:
        """What is unread, under way and held."""
        bob = self.house.bob
        under_way = (await bob.list_deliveries(outcome="open")).deliveries
        rows = (await bob.list_wake_subscriptions()).subscriptions  # none before the harness was there
        views = [(await bob.get_wake_subscription(row.subscription_id)).held for row in rows]
        held = [one for view in views if isinstance(view, list) for one in view]
        unread = [one for one in self.sent if one not in self.harness.read]
        return unread, under_way, held

    async def check(self, kills: int) -> None:
        assert sorted(self.harness.read) == sorted(self.sent), "every message was read once"
        assert len(set(self.harness.rung_marks)) == len(self.harness.rung_marks), "no mark rang twice"
        unknown = (await self.house.bob.list_deliveries(outcome="unknown", limit=500)).deliveries
        assert len(unknown) <= kills, "nobody knows more ends than were cut off"


@contextlib.asynccontextmanager
async def scene(tmp_path: Path, dice: random.Random) -> AsyncIterator[Scene]:
    with ServerProcess(tmp_path / "data", bridge="false", port=free_port(), **SETTINGS) as server:
        async with House(server) as house:
            bridge = Alone(house, tmp_path / "elsewhere", await new_token(house)).start()
            made = Scene(house, bridge, dice)
            running = asyncio.create_task(made.harness.run())
            try:
                yield made
            finally:
                running.cancel()
                await asyncio.wait([running])
                bridge.kill()


def again(process: Alone | ServerProcess) -> None:
    process.kill()
    process.start()


@pytest.mark.guarantee("G-BRIDGE-KILL")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.long)])
async def test_a_bridge_killed_anywhere_costs_one_doorbell_at_most(
    tmp_path: Path, dice: random.Random, rounds: int
) -> None:
    async with scene(tmp_path, dice) as made:
        for _ in range(rounds):
            await made.round(partial(again, made.bridge))
        await made.check(rounds)


@pytest.mark.guarantee("G-BRIDGE-KILL")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.long)])
async def test_a_server_killed_anywhere_costs_one_doorbell_at_most(
    tmp_path: Path, dice: random.Random, rounds: int
) -> None:
    async with scene(tmp_path, dice) as made:
        for _ in range(rounds):
            await made.round(partial(again, made.house.server))
        await made.check(rounds)
