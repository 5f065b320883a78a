"""A server that is killed while it rings in a session has lost no mail, and rung no mark twice."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bridge.household import House, eventually
from tests.chaos.harness import SETTINGS, Harness
from tests.databases import fresh_postgres
from wakeline.testing.server import ServerProcess

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("WAKELINE_CHAOS_ROUNDS", "50")) // 10 or 1


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    if request.param == "sqlite":
        yield ServerProcess(tmp_path / "data", **SETTINGS)
    else:
        with fresh_postgres() as url:
            yield ServerProcess(tmp_path / "data", database=url, **SETTINGS)


@pytest.mark.timeout(600)
@pytest.mark.guarantee("G-BRIDGE-KILL")
async def test_a_server_killed_while_it_rings_loses_no_mail_and_rings_no_mark_twice(target: ServerProcess) -> None:
    dice = random.Random(7)
    with target:
        async with House(target) as house:
            harness = Harness(house, dice)
            running = asyncio.create_task(harness.run())
            sent = []
            for _ in range(ROUNDS):
                sent += [await house.mail() for _ in range(3)]
                await asyncio.sleep(dice.uniform(0, 0.3))  # where it is killed is the point
                target.kill()
                target.start()

            async def all_read() -> bool:
                return set(sent) <= set(harness.read) or not (await house.bob.get_inbox()).messages

            await eventually(all_read, 240)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert len(harness.rung_marks) == len(set(harness.rung_marks))
