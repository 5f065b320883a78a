"""The companion in the real Claude Code, rung by a stand-in for the bridge when a planner would not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import harness_tools
from tests.harnesses.office import QUESTION, answer, wait_written
from tests.harnesses.stand_in_bridge import Line, StandInBridge
from wakeline.harnesses.claude_code import plugin
from wakeline.testing.model import Fail, ModelServer, Say, Shell, Use
from wakeline.testing.worlds import HarnessSession, World, make_world

MARKS = [f"wl-01M7H753XXF7N80WC2EAZ0F2G{sign}" for sign in "ABCDEF"]


class Companion:
    """The companion of one session, as the bridge knows it."""

    def __init__(self, bridge: StandInBridge, native_id: str) -> None:
        self._bridge, self._native_id = bridge, native_id
        self.hello = bridge.wait_for("hello", native_id=native_id)
        self.wait_for("presence", presence="idle")

    @property
    def said(self) -> int:
        return self._bridge.length

    def ring(self, mark: str) -> Line:
        return self._bridge.ring(self._native_id, mark)

    def withdraw(self, mark: str) -> bool:
        return self._bridge.withdraw(self._native_id, mark)

    def wait_for(self, kind: str, after: int = 0, **fields: Any) -> Line:
        return self._bridge.wait_for(kind, after, native_id=self._native_id, **fields)


class Desk:
    """A world of Claude Code with the plugin in it, and a stand-in for the bridge."""

    def __init__(self, world: World, bridge: StandInBridge, folder: Path) -> None:
        self.world, self.bridge, self._folder = world, bridge, folder
        plugin.write(folder / "plugin")
        world.extra = {
            "WAKELINE_TOKEN": "a token",
            "WAKELINE_SEATS": str(bridge.path),
            "WAKELINE_DATA": str(folder / "data"),
        }

    def sit(self, *words: str) -> tuple[HarnessSession, Companion]:
        session = self.world.open("--plugin-dir", str(self._folder / "plugin"), *words)
        return session, Companion(self.bridge, session.native_id)


@contextmanager
def desk_in(folder: Path, model: ModelServer, *, asks: bool = False) -> Iterator[Desk]:
    harness_tools.need_terminal()
    with (
        make_world(harness_tools.installed("claude-code"), folder, model, asks=asks) as world,
        StandInBridge(world.runtime / "seats") as bridge,
    ):
        yield Desk(world, bridge, folder)


@pytest.fixture
def desk(tmp_path: Path, model: ModelServer) -> Iterator[Desk]:
    with desk_in(tmp_path, model) as made:
        yield made


@pytest.fixture
def asking_desk(tmp_path: Path, model: ModelServer) -> Iterator[Desk]:
    """Where commands are run only with the human's leave."""
    with desk_in(tmp_path, model, asks=True) as made:
        yield made


def test_an_idle_session_wakes_in_the_same_session_and_tells_each_step(desk: Desk) -> None:
    session, companion = desk.sit()
    hello = companion.hello
    assert (hello["harness"], hello["transport"], hello["wake_mode"]) == ("claude-code", "inbox-socket", "socket")
    assert (hello["native_id"], hello["pid"]) == (session.native_id, session.terminal.pid)
    assert companion.ring(MARKS[0])["result"] == "accepted"
    request = desk.world.model.wait(MARKS[0])
    assert request.session == session.native_id
    started = companion.wait_for("turn_started", text=MARKS[0])
    ended = companion.wait_for("turn_ended", status="completed", last="Done.")
    assert started["turn_id"] == ended["turn_id"]


@pytest.mark.long
@pytest.mark.parametrize("bell", ["rewake", "watch"])
def test_the_older_bells_wake_again_and_again(desk: Desk, bell: str) -> None:
    desk.world.extra["WAKELINE_CLAUDE_BELL"] = bell
    session, companion = desk.sit()
    for mark in MARKS[:3]:
        before = companion.said
        assert companion.ring(mark)["result"] == "accepted"
        assert desk.world.model.wait(mark).session == session.native_id
        companion.wait_for("turn_ended", before, status="completed")
    assert [len(desk.world.model.turns(mark)) for mark in MARKS[:3]] == [1, 1, 1]


@pytest.mark.long
def test_a_doorbell_in_a_stream_does_not_ring_when_the_human_stops_it(desk: Desk) -> None:
    session, companion = desk.sit()
    desk.world.model.script("tell a story", Say("Once upon a time", threading.Event()))
    session.prompt("tell a story")
    assert companion.ring(MARKS[0])["result"] == "accepted"
    session.terminal.press("Escape")
    companion.wait_for("turn_ended", status="interrupted")
    companion.wait_for("presence", presence="userTyping")
    assert companion.ring(MARKS[1])["result"] == "accepted"
    desk.bridge.announcement = {"text": f"Wakeline: three {MARKS[2]}", "marks": [MARKS[2]]}
    request = session.prompt("what was that")
    assert all(mark in request.news for mark in MARKS[:3])
    companion.wait_for("injected", marks=MARKS[:3])
    assert len(desk.world.model.turns(MARKS[0])) == 1


@pytest.mark.guarantee("G-COMPANION-WITHDRAWN")
@pytest.mark.long
def test_a_doorbell_that_is_called_off_does_not_ring_at_the_end_of_the_turn(desk: Desk) -> None:
    session, companion = desk.sit()
    gate = threading.Event()
    desk.world.model.script("tell a story", Say("Once upon a time", gate))
    session.prompt("tell a story")
    assert companion.ring(MARKS[0])["result"] == "accepted"
    assert companion.withdraw(MARKS[0])
    gate.set()
    companion.wait_for("turn_ended", status="completed")
    assert companion.ring(MARKS[1])["result"] == "accepted"
    desk.world.model.wait(MARKS[1])
    assert desk.world.model.turns(MARKS[0]) == []


@pytest.mark.long
def test_resume_takes_the_other_sessions_seat_and_leaves_the_doorbells_of_the_first(desk: Desk) -> None:
    earlier, companion = desk.sit()
    earlier.prompt("remember the blue door")
    companion.wait_for("turn_ended")
    wait_written(desk.world, earlier.native_id)
    earlier.stop()
    session, companion = desk.sit()
    desk.world.model.script("tell a story", Say("Once upon a time", threading.Event()))
    session.prompt("tell a story")
    assert companion.ring(MARKS[0])["result"] == "accepted"
    session.terminal.press("Escape")
    companion.wait_for("turn_ended", status="interrupted")
    before = companion.said
    session.terminal.submit(f"/resume {earlier.native_id}")
    desk.bridge.wait_for("hello", before, native_id=earlier.native_id)
    request = session.prompt("which door")
    assert request.session == earlier.native_id
    assert "the blue door" in request.text
    assert MARKS[0] not in request.text


@pytest.mark.long
def test_a_doorbell_in_a_tool_call_goes_with_the_tools_result(desk: Desk) -> None:
    session, companion = desk.sit()
    go = desk.world.project / "go"
    desk.world.model.script("run it", Shell(f"until [ -e {go} ]; do sleep 0.1; done; echo finished"), Say("Ran."))
    session.prompt("run it")
    assert companion.ring(MARKS[0])["result"] == "accepted"
    go.touch()
    request = desk.world.model.wait(MARKS[0])
    assert "finished" in request.news
    injected = companion.wait_for("injected", marks=[MARKS[0]])
    assert companion.wait_for("turn_ended", status="completed")["turn_id"] == injected["turn_id"]


@pytest.mark.long
def test_an_open_permission_dialog_is_left_alone_until_it_is_answered(asking_desk: Desk) -> None:
    session, companion = asking_desk.sit()
    made = asking_desk.world.project / "made"
    asking_desk.world.model.script("make it", Shell(f"touch {made}"), Say("Made."))
    session.prompt("make it")
    session.terminal.wait(QUESTION)
    companion.wait_for("presence", presence="waitingOnApproval")
    assert companion.ring(MARKS[0])["result"] == "accepted"
    assert QUESTION in session.terminal.screen
    assert not made.exists()
    answer(session.terminal, "Yes")
    asking_desk.world.model.wait(MARKS[0])
    assert made.exists()
    companion.wait_for("turn_ended", status="completed")


@pytest.mark.long
@pytest.mark.parametrize("way", ["No", "Escape"])
def test_a_human_who_refuses_is_not_talked_over(asking_desk: Desk, way: str) -> None:
    session, companion = asking_desk.sit()
    made = asking_desk.world.project / "made"
    asking_desk.world.model.script("make it", Shell(f"touch {made}"), Say("Made."))
    session.prompt("make it")
    session.terminal.wait(QUESTION)
    assert companion.ring(MARKS[0])["result"] == "accepted"
    answer(session.terminal, way)
    companion.wait_for("turn_ended", status="interrupted")
    assert asking_desk.world.model.turns(MARKS[0]) == []
    request = session.prompt("something else")
    companion.wait_for("turn_ended", status="completed")
    assert asking_desk.world.model.turns(MARKS[0]) == [request]
    assert not made.exists()


@pytest.mark.long
def test_a_failing_model_ends_the_turn_as_failed(desk: Desk) -> None:
    session, companion = desk.sit()
    desk.world.model.default = Fail(400, "no")
    session.terminal.submit("break")
    companion.wait_for("turn_ended", status="failed")
    desk.world.model.default = Say("Better.")
    assert companion.ring(MARKS[0])["result"] == "accepted"
    desk.world.model.wait(MARKS[0])


@pytest.mark.long
def test_a_subagents_tools_do_not_take_the_doorbell_along(desk: Desk) -> None:
    session, companion = desk.sit()
    go = desk.world.project / "go"
    task = {"description": "a task", "prompt": "do the errand", "subagent_type": "claude", "run_in_background": False}
    desk.world.model.script("delegate it", Use("Agent", task))
    desk.world.model.script("do the errand", Shell(f"until [ -e {go} ]; do sleep 0.1; done; echo fetched"))
    session.prompt("delegate it")
    desk.world.model.wait("do the errand")
    assert companion.ring(MARKS[0])["result"] == "accepted"
    go.touch()
    errand = desk.world.model.wait("fetched")
    rung = desk.world.model.wait(MARKS[0])
    assert MARKS[0] not in errand.text
    assert "delegate it" in rung.text
