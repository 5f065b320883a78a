from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import harness_tools
from tests.adapters.codex_bench import Bench, configure
from wakeline.core.parcel import Absent, Accepted, mark_of
from wakeline.core.session import Presence
from wakeline.testing.model import Fail, ModelServer, Say, Use
from wakeline.testing.worlds import World, make_world


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def a_world(folder: Path, model: ModelServer) -> World:
    harness_tools.need_terminal()
    world = make_world(harness_tools.installed("codex"), folder, model)
    configure(world, folder)
    return world


@pytest.fixture
def world(tmp_path: Path, model: ModelServer) -> Iterator[World]:
    with a_world(tmp_path, model) as made:
        yield made


@pytest.fixture
def bench(world: World) -> Iterator[Bench]:
    with Bench(world.home / ".codex") as made:
        yield made


def test_an_idle_terminal_that_was_never_spoken_to_wakes_in_its_own_thread(world: World, bench: Bench) -> None:
    session = world.open()
    session.terminal.type("a half written thought")
    thread = bench.thread()
    assert isinstance(bench.ring(thread, "A"), Accepted)
    request = world.model.wait(mark_of("A"))
    assert request.session == thread
    assert bench.wait_injected("A").session_id == f"session of {thread}"
    assert bench.wait_processed("A").status == "completed"
    session.terminal.wait("a half written thought")
    assert len(world.model.turns(mark_of("A"))) == 1
    assert bench.enrolled.keys() == {thread}  # and no thread that Codex made for a title


def test_ringing_again_under_the_same_mark_rings_once(world: World, bench: Bench) -> None:
    world.open()
    thread = bench.thread()
    bench.ring(thread, "A")
    bench.wait_processed("A")
    again = bench.ring(thread, "A", attempt=2)
    assert isinstance(again, Accepted)
    assert "already in turn" in again.detail
    bench.ring(thread, "B")
    bench.wait_processed("B")
    assert len(world.model.turns(mark_of("A"))) == 1


def test_an_active_turn_is_not_cut_off(world: World, bench: Bench) -> None:
    session = world.open()
    gate = threading.Event()
    world.model.script("think", Say("First. The rest.", gate))
    thinking = session.prompt("think")
    thread = bench.thread()
    bench.wait_presence(Presence.ACTIVE)
    assert isinstance(bench.ring(thread, "A"), Accepted)
    again = bench.ring(thread, "A", attempt=2)
    assert isinstance(again, Accepted)
    assert "already in the thread's queue" in again.detail
    bench.ring(thread, "B")  # what waits unread is one doorbell, the newest
    gate.set()
    request = world.model.wait(mark_of("B"), session=thread)
    assert "The rest." in request.text
    assert not thinking.cut
    bench.wait_processed("B")
    assert world.model.turns(mark_of("A")) == []


def test_a_turn_that_failed_is_told_as_failed(world: World, bench: Bench) -> None:
    world.open()
    thread = bench.thread()
    world.model.default = Fail(400, "the model refuses")
    bench.ring(thread, "A")
    assert bench.wait_processed("A").status == "failed"
    world.model.default = Say()
    assert isinstance(bench.ring(thread, "B"), Accepted)
    assert bench.wait_processed("B").status == "completed"


def test_a_question_to_the_human_is_neither_answered_nor_taken_away(world: World, bench: Bench) -> None:
    session = world.open()
    world.model.script("make it", an_escalation("touch made"), Say("Made."))
    session.prompt("make it")
    thread = bench.thread()
    bench.wait_presence(Presence.WAITING_ON_APPROVAL)
    session.terminal.wait("touch made")
    before = len(bench.observations)
    assert bench.ring(thread, "A") == Absent()
    assert "touch made" in session.terminal.screen
    session.terminal.press("Enter")
    session.terminal.wait("Made.")
    bench.wait_presence(Presence.IDLE, before)
    assert (world.project / "made").exists()
    assert world.model.turns(mark_of("A")) == []


def an_escalation(command: str) -> Use:
    """A command for which Codex asks its human."""
    return Use(
        "exec_command",
        {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "May I do this?"},
    )
