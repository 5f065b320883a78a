"""What the companion of Claude Code does with a doorbell that it keeps in a turn.  The bell stands for Claude Code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count, repeat
from pathlib import Path

import pytest

from wakeline.harnesses.claude_code.bell import ACCEPTED, Verdict
from wakeline.harnesses.claude_code.companion import Companion, Place
from wakeline.harnesses.claude_code.registry import Registry
from wakeline.wire.seat import AnnounceSaid, RingSaid
from wakeline.wire.sessions import WakeMode

ONE, TWO = (f"wl-01M7H753XXF7N80WC2EAZ0F2G{sign}" for sign in "AB")


class Bell:
    transport = "inbox-socket"
    wake_mode: WakeMode = "socket"

    def __init__(self) -> None:
        self.rung: asyncio.Queue[str] = asyncio.Queue()

    async def ring(self, text: str, native_id: str) -> Verdict:
        self.rung.put_nowait(text)
        return ACCEPTED


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
async def companion(tmp_path: Path, bell: Bell) -> AsyncIterator[Companion]:
    """In a turn."""
    numbers = count()
    place = Place(token="t", native_id="n", pid=1, cwd="/", attended=False)
    registry = Registry(tmp_path, 1)
    made = Companion(
        place, bell, registry, lambda: str(tmp_path / "seats"), lambda: repeat(60.0), lambda: next(numbers)
    )
    running = asyncio.create_task(made.run())
    await asyncio.sleep(0)
    yield made
    running.cancel()
    await asyncio.wait([running])


async def ring(companion: Companion, mark: str) -> None:
    answer = await companion.rung(RingSaid(id=mark, mark=mark, text=f"there is mail ({mark})"))
    assert answer is not None
    assert "kept" in str(answer.detail)


@pytest.mark.guarantee("G-COMPANION-WITHDRAWN")
async def test_what_is_called_off_in_a_turn_does_not_ring_when_it_ends(companion: Companion, bell: Bell) -> None:
    await ring(companion, ONE)
    await ring(companion, TWO)
    assert companion.withdrawn(ONE)
    assert not companion.withdrawn(ONE)
    await companion.hook({"event": "Stop"})
    assert TWO in await bell.rung.get()
    assert bell.rung.empty()


@pytest.mark.guarantee("G-COMPANION-WITHDRAWN")
async def test_what_is_called_off_does_not_go_with_a_tools_result(companion: Companion) -> None:
    await ring(companion, ONE)
    assert companion.withdrawn(ONE)
    assert await companion.hook({"event": "PostToolUse"}) == {}


async def test_an_announcement_stays_while_one_of_its_mails_is_unread(companion: Companion, bell: Bell) -> None:
    companion.announced(AnnounceSaid(text="two and more", marks=[ONE, TWO]))
    assert not companion.withdrawn(ONE)
    companion.announced(AnnounceSaid(text="of a mark it knows nothing", marks=[]))
    assert companion.withdrawn(TWO)
    await companion.hook({"event": "Stop"})
    assert await bell.rung.get() == "of a mark it knows nothing"
    assert bell.rung.empty()
