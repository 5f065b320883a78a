from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import harness_tools
from wakeline.testing.model import ModelServer, Say, Shell
from wakeline.testing.worlds import WORLDS, World, make_world
from wakeline.testing.worlds.world import residents

pytestmark = pytest.mark.timeout(300)  # a harness takes its time to start on a machine that does other things


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path, model: ModelServer) -> Iterator[World]:
    harness_tools.need_terminal()
    with make_world(harness_tools.installed(request.param), tmp_path, model) as made:
        yield made
    assert residents(made.home) == []


def test_a_real_harness_answers_a_typed_prompt_and_runs_a_tool(world: World) -> None:
    session = world.open()
    world.model.script("count the stars", Shell("echo $((6 * 7)) stars"), Say("There are some."))
    request = session.prompt("count the stars")
    result = world.model.wait("42 stars")
    session.terminal.wait("There are some.")
    assert request.session == result.session == session.native_id


def test_a_harness_that_asks_does_nothing_before_the_answer(world: World) -> None:
    world.asks = True
    world.configure()
    session = world.open()
    world.model.script("make a file", Shell("touch made", asks=True), Say("It is made."))
    session.prompt("make a file")
    if world.question:
        session.terminal.wait(world.question)
        assert not (world.project / "made").exists()
        session.terminal.press_until("Enter", lambda: world.question not in session.terminal.screen)
    session.terminal.wait("It is made.")
    assert (world.project / "made").exists()


def test_escape_cuts_off_what_the_model_is_saying(world: World) -> None:
    session = world.open()
    world.model.script("tell me all", Say("Once upon a time\n\nit ended.", threading.Event()))
    request = session.prompt("tell me all")
    session.terminal.wait("Once upon a time")
    session.terminal.press_until("Escape", request.answered.is_set)
    assert request.cut


def test_two_sessions_of_one_world_are_told_apart(world: World) -> None:
    first, second = world.open(), world.open()
    assert first.prompt("I am the first").session != second.prompt("I am the second").session
    assert first.native_id != second.native_id
