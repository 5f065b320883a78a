"""What time and the machine do to a session: the real service over a real store whose clock we move."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.store.builders import agent, human, new_id, open_workspace
from tests.store.places import SqlitePlace
from wakeline import wire
from wakeline.core.guardrail import Guardrails
from wakeline.core.instant import SECOND
from wakeline.core.principal import Caller
from wakeline.core.session import Sighting
from wakeline.flow.attend import Attention
from wakeline.service.context import Context
from wakeline.service.sessions import SHOWN_FOR, Sessions, Surroundings

STALE, DORMANT = 300, 900
STARTED = 1_700_000_000


class World:
    """One agent, one human, a clock and a process table."""

    def __init__(self, place: SqlitePlace, service: Sessions, bob: Caller, human: Caller) -> None:
        self.place, self.service, self.bob, self.human = place, service, bob, human

    def wait(self, seconds: float) -> None:
        self.place.now += int(seconds * SECOND)

    async def beat(self, **said: Any) -> wire.Attended:
        request = msgspec.convert({"harness": "pi", "host": "here", **said}, wire.HeartbeatSession)
        return await self.service.heartbeat(self.bob, request)

    async def session(self) -> wire.SessionView:
        [view] = (await self.service.list(self.bob, wire.SessionsQuery())).sessions
        return view

    async def peers(self) -> list[wire.PeerView]:
        return [one for one in (await self.service.peers(self.human)).peers if one.handle == "@bob"]


@pytest.fixture
def processes() -> dict[int, int]:
    return {}


async def nobody_comes(_: Caller) -> None:
    """Who is welcomed how is not what these tests look at."""


@pytest.fixture
async def world(tmp_path: Path, processes: dict[int, int]) -> AsyncIterator[World]:
    def look(pid: int) -> Sighting:
        return (True, processes[pid]) if pid in processes else (False, None)

    place = SqlitePlace(tmp_path)
    store = await place.open()
    workspace = await open_workspace(store, "@bob")
    context = Context(store, Guardrails(), new_id)
    service = Sessions(
        context, Surroundings(frozenset({"here"}), look), Attention(STALE * SECOND), DORMANT * SECOND, nobody_comes
    )
    yield World(place, service, agent(workspace, "@bob"), human(workspace))
    await place.close()


@pytest.mark.guarantee("G-STALE")
async def test_presence_goes_stale_by_itself_and_comes_back_with_the_next_word(world: World) -> None:
    await world.beat(presence="idle")
    world.wait(STALE - 1)
    assert (await world.session()).presence == (await world.peers())[0].presence == "idle"
    world.wait(1)
    assert (await world.session()).presence == (await world.peers())[0].presence == "unknown"
    await world.beat()
    assert (await world.session()).presence == "unknown"  # it lives, but did not say how it is
    await world.beat(presence="idle")
    assert (await world.session()).presence == "idle"


async def test_a_silent_session_is_dormant_until_it_beats_again(world: World) -> None:
    await world.beat()
    world.wait(DORMANT - 1)
    assert not (await world.session()).dormant
    world.wait(1)
    assert (await world.session()).dormant
    assert (await world.peers())[0].dormant
    await world.beat()
    assert not (await world.session()).dormant


async def test_peers_forget_a_session_that_never_said_that_it_ended(world: World) -> None:
    await world.beat()
    world.wait(SHOWN_FOR.total_seconds() + 1)
    [one] = await world.peers()
    assert one.session_id is None
    assert (await world.session()).dormant  # its agent still finds it


@pytest.mark.parametrize(
    ("host", "there", "verdict"),
    [
        ("here", {7: STARTED * SECOND}, "live"),
        ("here", {7: (STARTED + 60) * SECOND}, "dead"),
        ("here", {}, "dead"),
        ("elsewhere", {7: STARTED * SECOND}, "uncertain"),  # that process 7 is another machine's
    ],
)
async def test_only_processes_of_this_machine_are_looked_at(
    world: World, processes: dict[int, int], host: str, there: dict[int, int], verdict: str
) -> None:
    processes |= there
    await world.beat(host=host, pid=7, pid_started_at="2023-11-14T22:13:20Z")
    assert (await world.session()).liveness == verdict
