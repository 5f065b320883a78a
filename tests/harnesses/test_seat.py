from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from wakeline.harnesses.seat import NOTHING, Parting, Seat
from wakeline.wire.seat import PROTOCOL, AnnounceSaid, Hello, PresenceSaid, RingSaid, Rung, TurnStarted, Welcome

QUESTION = TurnStarted(turn_id="t", text="hello")


class Sitter:
    def __init__(self) -> None:
        self.late: list[AnnounceSaid] = []
        self.kept = {"wl-1"}
        self.welcomes: asyncio.Queue[Welcome] = asyncio.Queue()

    def hello(self) -> Hello:
        return Hello(protocol=PROTOCOL, token="t", harness="h", native_id="n", wake_mode="socket", transport="x")

    def welcomed(self, welcome: Welcome) -> None:
        self.welcomes.put_nowait(welcome)

    async def rung(self, ring: RingSaid) -> Rung:
        return Rung(id=ring.id, result="accepted")

    def withdrawn(self, mark: str) -> bool:
        return mark in self.kept

    def announced(self, announce: AnnounceSaid) -> None:
        self.late.append(announce)


class Bridge:
    """Answers hello, and then what the test says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []
        self.server: asyncio.Server | None = None
        self.answer: bytes | None = None  # instead of a welcome, and the end

    async def start(self) -> None:
        self.server = await asyncio.start_unix_server(self._serve, self.path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        while line := await reader.readline():
            said = json.loads(line)
            if self.answer is not None:
                writer.write(self.answer)
                break
            if said["type"] == "hello":
                self.tell(type="welcome", session_id="s", handle="@bob", doorbell=None)
            self.heard.put_nowait(said)
        writer.close()

    def tell(self, **line: Any) -> None:
        self.writers[-1].write(json.dumps(line).encode() + b"\n")

    async def hear(self, kind: str) -> dict[str, Any]:
        while (said := await self.heard.get())["type"] != kind:
            pass
        return said

    async def stop(self) -> None:
        assert self.server is not None
        self.server.close()
        self.path.unlink(missing_ok=True)
        for writer in self.writers:
            writer.close()


def soon() -> Iterator[float]:
    return repeat(0.01)


@asynccontextmanager
async def held(path: Path) -> AsyncIterator[tuple[Seat, Sitter]]:
    sitter = Sitter()
    seat = Seat(lambda: str(path), sitter, soon)
    holding = asyncio.create_task(seat.hold())
    try:
        yield seat, sitter
    finally:
        holding.cancel()
        await asyncio.wait([holding])


@pytest.fixture
async def bridge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bridge]:
    made = Bridge(tmp_path_factory.mktemp("s") / "seats.sock")
    await made.start()
    yield made
    await made.stop()


async def test_a_ring_is_answered_and_unknown_lines_are_ignored(bridge: Bridge) -> None:
    async with held(bridge.path) as (_, sitter):
        await sitter.welcomes.get()
        bridge.tell(type="weather", rain=True)
        bridge.writers[-1].write(b"not json\n")
        bridge.tell(type="ring", id="d1", mark="wl-1", text="there is mail", colour="red")
        assert (await bridge.hear("rung"))["id"] == "d1"


@pytest.mark.parametrize(("mark", "kept"), [("wl-1", True), ("wl-2", False)])
async def test_who_is_asked_to_let_a_doorbell_go_says_whether_it_was_kept(
    bridge: Bridge, mark: str, *, kept: bool
) -> None:
    async with held(bridge.path) as (_, sitter):
        await sitter.welcomes.get()
        bridge.tell(type="withdraw", mark=mark)
        assert await bridge.hear("withdrawn") == {"type": "withdrawn", "mark": mark, "kept": kept}


async def test_a_bridge_that_comes_back_is_found_again(bridge: Bridge) -> None:
    async with held(bridge.path) as (seat, sitter):
        await sitter.welcomes.get()
        await bridge.stop()
        assert await seat.ask(QUESTION, timeout=60) == NOTHING, "the bridge has left"
        seat.say(PresenceSaid(presence="idle"))  # nobody hears it, and nothing breaks
        await bridge.start()
        await sitter.welcomes.get()
        seat.say(PresenceSaid(presence="active"))
        assert (await bridge.hear("presence"))["presence"] == "active"


async def test_who_moves_says_hello_again(bridge: Bridge) -> None:
    async with held(bridge.path) as (seat, sitter):
        seat.move()  # there is nowhere to leave yet
        await sitter.welcomes.get()
        await bridge.hear("hello")
        asked = asyncio.create_task(seat.ask(QUESTION, timeout=60))
        await bridge.hear("turn_started")
        seat.move()
        assert await asked == NOTHING
        await bridge.hear("hello")
        await sitter.welcomes.get()
        assert len(bridge.writers) == 2


async def test_without_an_answer_in_time_there_is_no_announcement(bridge: Bridge) -> None:
    async with held(bridge.path) as (seat, sitter):
        assert await seat.ask(QUESTION, timeout=0.01) == NOTHING, "there is no bridge yet"
        await sitter.welcomes.get()
        assert await seat.ask(QUESTION, timeout=0.05) == NOTHING
        await bridge.hear("turn_started")
        bridge.tell(type="announce", text="late", marks=[])
        second = asyncio.create_task(seat.ask(QUESTION, timeout=10))
        await bridge.hear("turn_started")
        bridge.tell(type="announce", text="in time", marks=["wl-1"])
        assert await second == AnnounceSaid(text="in time", marks=["wl-1"])
        assert sitter.late == [AnnounceSaid(text="late", marks=[])]


async def test_who_waits_for_an_announcement_is_let_go_when_the_bridge_leaves(bridge: Bridge) -> None:
    async with held(bridge.path) as (seat, sitter):
        await sitter.welcomes.get()
        asked = asyncio.create_task(seat.ask(QUESTION, timeout=60))
        await bridge.hear("turn_started")
        await bridge.stop()
        assert await asked == NOTHING


async def test_a_bridge_that_dies_before_it_answers_is_not_one_that_refuses(bridge: Bridge) -> None:
    seat = Seat(lambda: str(bridge.path), Sitter(), soon)
    assert await asyncio.wait_for(_sit(seat, bridge, b""), 10) is Parting.NOBODY
    refusal = b'{"type": "refused", "error": {"message": "no"}}\n'
    assert await asyncio.wait_for(_sit(seat, bridge, refusal), 10) is Parting.REFUSED
    await bridge.stop()
    assert await seat.sit() is Parting.NOBODY


async def _sit(seat: Seat, bridge: Bridge, answer: bytes) -> Parting:
    bridge.answer = answer
    return await seat.sit()
