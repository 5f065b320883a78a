"""`wakeline bridge` against a server elsewhere: one for a host, through restarts and kills of either side."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.alone import HOST, Alone, free_port, new_token
from tests.bridge.household import House
from wakeline.harnesses.seat import Parting
from wakeline.testing.server import ServerProcess


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    quick: dict[str, Any] = {"lease_seconds": 15, "coalesce_seconds": 0, "loop_turn_limit": 0, "loop_repeat_limit": 0}
    with ServerProcess(tmp_path / "data", bridge="false", port=free_port(), **quick) as server:
        async with House(server) as made:
            yield made


@pytest.fixture
async def alone(house: House, tmp_path: Path) -> AsyncIterator[Alone]:
    bridge = Alone(house, tmp_path / "elsewhere", await new_token(house)).start()
    yield bridge
    bridge.kill()


async def test_a_bridge_elsewhere_rings_in_the_sessions_of_its_host(house: House, alone: Alone) -> None:
    async with house.session(data=alone.data) as session:
        [shown] = (await house.bob.list_sessions()).sessions
        assert shown.host == HOST
        await house.mail()
        ring = await session.next()
        await session.turn(ring.text)
        await house.until_outcomes(("processed", "delivered"))
    assert alone.stop() == 0


@pytest.mark.guarantee("G-BRIDGE-ONE")
async def test_a_second_bridge_is_refused_by_the_lock_and_by_the_lease(house: House, alone: Alone) -> None:
    token = await new_token(house)
    same = Alone(house, alone.data, token).start()
    assert (same.wait(), "Another bridge runs" in "".join(same.output)) == (5, True)
    other = Alone(house, alone.data.parent / "other", token).start()
    assert (other.wait(), "Another bridge serves" in "".join(other.output)) == (1, True)
    wrong = Alone(house, alone.data.parent / "wrong", token).start("--host", "another")
    assert wrong.wait() != 0
    async with house.session(data=alone.data) as session:
        await house.mail()
        await session.next()


async def test_a_bridge_needs_a_token_for_a_host(house: House, tmp_path: Path) -> None:
    for token, code in (("", 4), (house.tokens["@bob"], 4)):
        refused = Alone(house, tmp_path / "refused", token).start()
        assert refused.wait() == code, refused.output


@pytest.mark.slow
async def test_a_bridge_outlives_its_server(house: House, alone: Alone) -> None:
    async with house.session(data=alone.data) as session:
        await house.mail()
        ring = await session.next()
        house.server.kill()
        house.server.start()
        for client in house.clients:
            await client.close()
        await session.turn(ring.text)
        await house.until_outcomes(("processed", "delivered"))
        await house.mail()
        await session.turn((await session.next()).text)
        await house.until_outcomes(("processed", "delivered"), ("processed", "delivered"))


@pytest.mark.slow
async def test_a_server_that_is_away_is_no_refusal(house: House, alone: Alone) -> None:
    house.server.kill()
    assert await house.session(data=alone.data).seat.sit() is Parting.NOBODY
    house.server.start()
    async with house.session(data=alone.data) as session:
        assert session.session_id


@pytest.mark.slow
@pytest.mark.guarantee("G-BRIDGE-UNKNOWN")
async def test_a_killed_bridge_comes_back_at_once_and_rings_nothing_twice_blindly(house: House, alone: Alone) -> None:
    async with house.session(data=alone.data) as session:
        session.answer = None
        await house.mail()
        first = await session.next()
        alone.kill()
        alone.start()
        await house.until_outcomes(("queued", "unknown"))
    async with house.session(data=alone.data, presence="active") as session:
        await session.start_turn(first.text, "t1")  # it had arrived after all
        session.end_turn("t1")
        await house.until_outcomes(("processed", "unknown"))
        await house.mail(subject="another")
        ring = await session.next()
        await session.turn(ring.text, "t2")
        await house.until_outcomes(("processed", "unknown"), ("processed", "delivered"))
        assert session.rings.empty()
