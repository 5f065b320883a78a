"""Typing into the real harnesses: it goes in when nobody minds, and never otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import harness_tools
from tests.adapters.test_tmux import MARK, a_parcel, a_session, give
from wakeline.adapters.tmux.adapter import Tmux
from wakeline.core.parcel import Accepted, Refused, Result
from wakeline.runtime.processes import foreground, look
from wakeline.testing.model import ModelServer, Say, Shell
from wakeline.testing.worlds import HarnessSession, World, make_world

HARNESSES = ("claude-code", "codex", "pi")
LOOKS = 20
# As long as doorbells are: programs break it into several lines.
LONG = f"Wakeline: you have 1 unread message from @ann. {'Its subject goes on and on. ' * 8}[{MARK}]"


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=HARNESSES)
def world(request: pytest.FixtureRequest, tmp_path: Path, model: ModelServer) -> Iterator[World]:
    harness_tools.need_terminal()
    with make_world(harness_tools.installed(request.param), tmp_path, model, asks=True) as made:
        yield made


async def ring(session: HarnessSession) -> Result:
    terminal = session.terminal
    give(terminal)
    row = a_session(f"{terminal.socket},%0", foreground(terminal.pid))
    return await Tmux(look, foreground).deliver(a_parcel(row, LONG))


async def ring_until(session: HarnessSession, wanted: Callable[[Result], bool]) -> Result:
    """A screen that has just changed is taken for work, so it may be looked at again."""
    result = await ring(session)
    for _ in range(LOOKS):
        if wanted(result):
            return result
        assert isinstance(result, Refused), result
        result = await ring(session)
    pytest.fail(f"{result}\n{session.terminal.screen}")


def says(reason: str) -> Callable[[Result], bool]:
    return lambda result: isinstance(result, Refused) and result.reason == reason


async def test_an_idle_session_gets_the_doorbell_once(world: World) -> None:
    session = world.open()
    spoken = session.prompt("hello")
    result = await ring_until(session, lambda one: not isinstance(one, Refused))
    assert result == Accepted(None, "typed and submitted")
    assert world.model.wait(MARK, timeout=60).session == spoken.session


@pytest.mark.guarantee("G-TMUX-DOUBT")
async def test_a_draft_stays_as_it_is(world: World) -> None:
    session = world.open()
    session.prompt("hello")
    session.terminal.wait("Done.")
    session.terminal.type("half a thought")
    session.terminal.wait("half a thought")
    await ring_until(session, says("screen_draft"))
    assert "half a thought" in session.terminal.screen
    assert MARK not in session.terminal.screen


@pytest.mark.guarantee("G-TMUX-DOUBT")
async def test_a_running_turn_is_not_disturbed(world: World) -> None:
    session, gate = world.open(), threading.Event()
    world.model.script("be slow", Say("Well then", gate=gate))
    session.prompt("be slow")
    try:
        for _ in range(3):
            assert says("screen_busy")(await ring(session))
        assert MARK not in session.terminal.screen
    finally:
        gate.set()


@pytest.mark.guarantee("G-TMUX-DOUBT")
@pytest.mark.parametrize("world", ["claude-code", "codex"], indirect=True)
async def test_a_question_is_never_answered(world: World) -> None:
    session = world.open()
    world.model.script("make a file", Shell("touch made", asks=True), Say("So be it."))
    session.prompt("make a file")
    session.terminal.wait(world.question)
    await ring_until(session, says("screen_modal"))
    assert world.question in session.terminal.screen
    assert not (world.project / "made").exists()


@pytest.mark.guarantee("G-TMUX-DOUBT")
async def test_after_esc_nothing_is_typed_until_the_human_has_spoken(world: World) -> None:
    session, gate = world.open(), threading.Event()
    session.prompt("hello")
    world.model.script("be slow", Say("Well then.\n\nThat is all.", gate))
    turn = session.prompt("be slow")
    session.terminal.wait("Well then.")
    session.terminal.press_until("Escape", turn.answered.is_set)
    try:
        await ring_until(session, says("screen_stopped"))
        assert MARK not in session.terminal.screen
        session.prompt("go on")
        await ring_until(session, lambda one: isinstance(one, Accepted))
    finally:
        gate.set()
