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
from wakeline.testing.terminal import end_process
from wakeline.testing.worlds import World, make_world
from wakeline.testing.worlds.codex import start_daemon
from wakeline.testing.worlds.world import residents


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
    processed = bench.wait_processed("A")
    assert (processed.status, processed.last) == ("completed", "Done.")
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


@pytest.mark.guarantee("G-CODEX-WITHDRAWN")
def test_a_doorbell_that_waits_in_the_queue_can_be_withdrawn(world: World, bench: Bench) -> None:
    session = world.open()
    gate = threading.Event()
    world.model.script("think", Say("First. The rest.", gate))
    session.prompt("think")
    thread = bench.thread()
    bench.wait_presence(Presence.ACTIVE)
    assert isinstance(bench.ring(thread, "A"), Accepted)
    before = len(bench.observations)
    assert bench.withdraw(thread, "A")
    assert not bench.withdraw(thread, "A")
    gate.set()
    bench.wait_presence(Presence.IDLE, before)
    bench.ring(thread, "B")
    bench.wait_processed("B")
    assert not bench.withdraw(thread, "B")  # it has become a turn
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


def test_what_rings_after_a_humans_escape_waits_until_the_human_speaks_again(world: World, bench: Bench) -> None:
    session = world.open()
    gate = threading.Event()
    world.model.script("think", Say("First. The rest.", gate))
    session.prompt("think")
    thread = bench.thread()
    bench.wait_presence(Presence.ACTIVE)
    before = len(bench.observations)
    session.terminal.wait("First.")
    session.terminal.press("Escape")
    bench.wait_presence(Presence.IDLE, before)
    assert isinstance(bench.ring(thread, "A"), Accepted)
    spoken = session.prompt("go on, please")
    rung = world.model.wait(mark_of("A"))
    assert spoken.number < rung.number
    assert mark_of("A") not in spoken.text
    assert bench.wait_processed("A").status == "completed"


def test_siblings_of_one_app_server_sleep_on(world: World, bench: Bench) -> None:
    world.open()
    first = bench.thread()
    world.open()
    second = bench.thread(first)
    bench.ring(second, "A")
    bench.wait_processed("A")
    assert {request.session for request in world.model.turns()} == {second}


def test_an_app_server_that_is_killed_loses_nothing(world: World, bench: Bench) -> None:
    session = world.open()
    gate = threading.Event()
    world.model.script("think", Say("First. The rest.", gate))
    session.prompt("think")
    thread = bench.thread()
    bench.wait_presence(Presence.ACTIVE)
    assert isinstance(bench.ring(thread, "A"), Accepted)
    before = len(bench.observations)
    kill_app_server(world)
    bench.wait_presence(Presence.UNKNOWN, before)
    assert bench.ring(thread, "B") == Absent()
    start_daemon(world)
    gate.set()
    world.model.wait(mark_of("A"), session=thread)
    assert bench.wait_processed("A").status == "completed"
    assert len(world.model.turns(mark_of("A"))) == 1


@pytest.mark.long
def test_steering_goes_into_the_running_turn_and_only_if_asked_for(world: World) -> None:
    session = world.open()
    with Bench(world.home / ".codex", steer=True) as bench:
        world.model.script("think", Say("First. The rest.", threading.Event()), Say("Steered."))
        thinking = session.prompt("think")
        thread = bench.thread()
        bench.wait_presence(Presence.ACTIVE)
        session.terminal.wait("First.")
        taken = bench.ring(thread, "A")
        assert isinstance(taken, Accepted)
        assert "steered" in taken.detail
        steered = world.model.wait(mark_of("A"), session=thread)
        assert "think" in steered.news
        assert thinking.answered.wait(30)
        assert thinking.cut  # what the model was saying is lost: that is why queueing is the rule
        assert bench.wait_processed("A").turn_id == bench.wait_injected("A").turn_id


def kill_app_server(world: World) -> None:
    for pid in residents(world.home):
        if b"--listen" in Path(f"/proc/{pid}/cmdline").read_bytes():
            end_process(pid)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_thread_that_its_human_has_left_is_gone(world: World, bench: Bench) -> None:
    session = world.open()
    session.prompt("hello")
    thread = bench.thread()
    session.terminal.wait("Done.")
    session.terminal.submit("/quit")
    assert bench.wait_gone().session_id == f"session of {thread}"
    assert bench.ring(thread, "A") == Absent()


def an_escalation(command: str) -> Use:
    """A command for which Codex asks its human."""
    return Use(
        "exec_command",
        {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "May I do this?"},
    )
