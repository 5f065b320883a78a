"""The companions of pi and opencode in their real harnesses, with a stand-in for the bridge."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import harness_tools
from tests.harnesses.stand_in_bridge import WAIT_SECONDS, StandInBridge
from tests.harnesses.wired import ANSWERS, KEYS, QUESTION, asking, wire
from wakeline.testing.model import ModelServer, Say, Shell
from wakeline.testing.worlds import HarnessSession, World, make_world

NAMES = ("pi", "opencode")
MARKS = (f"wl-01JCZ0VXW3TQ8M5N6P7R8S9{number:03d}" for number in itertools.count())
RESUME = {"pi": "--session", "opencode": "-s"}


class Scene:
    """A harness with our companion in it, spoken to once, so that it has a session; it is idle."""

    def __init__(self, world: World, bridge: StandInBridge, *words: str) -> None:
        self.world = world
        self.model = world.model
        self.bridge = bridge
        self.session: HarnessSession = world.open(*words)
        self.session.prompt("good morning")
        self.native_id = bridge.wait_for("turn_ended")["native_id"]
        self.idle(bridge.position("turn_ended"))

    def idle(self, after: int = 0) -> None:
        self.bridge.wait_for("presence", after, presence="idle", native_id=self.native_id)

    def ring(self, mark: str) -> str:
        rung = self.bridge.ring(self.native_id, mark)
        assert rung["result"] == "accepted", rung
        return str(rung["detail"])

    def processed(self, mark: str, after: int = 0) -> None:
        """The mark was shown to the model, and the turn that showed it has ended."""
        shown = self.bridge.wait(lambda line: line["type"] == "injected" and mark in line["marks"], after)
        self.bridge.wait_for("turn_ended", after, turn_id=shown["turn_id"], status="completed")

    def interrupt(self) -> None:
        after = self.bridge.length
        self.session.terminal.press("Escape")
        if self.world.harness == "opencode":
            self.session.terminal.wait("again to interrupt")
            self.session.terminal.press("Escape")
        self.bridge.wait_for("turn_ended", after, status="interrupted")

    def restart(self) -> None:
        after = self.bridge.length
        self.session.stop()
        self.session = self.world.open(RESUME[self.world.harness], self.native_id)
        self.bridge.wait_for("hello", after, native_id=self.native_id)
        self.idle(after)


class Stage:
    """Where a scene can begin."""

    def __init__(self, world: World, bridge: StandInBridge) -> None:
        self.world = world
        self.bridge = bridge

    def __call__(self) -> Scene:
        return Scene(self.world, self.bridge)

    def asking(self) -> Scene:
        """The harness asks before it runs a command."""
        return Scene(self.world, self.bridge, *asking(self.world))


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=NAMES)
def stage(request: pytest.FixtureRequest, model: ModelServer, tmp_path: Path) -> Iterator[Stage]:
    harness_tools.need_terminal()
    installed = harness_tools.installed(request.param)
    with (
        make_world(installed, tmp_path, model, asks=True) as world,
        StandInBridge(world.runtime / "seats") as bridge,
    ):
        wire(world, {"WAKELINE_SEATS": str(bridge.path), "WAKELINE_TOKEN": "a token"})
        yield Stage(world, bridge)


@pytest.mark.guarantee("G-PI-OPENCODE-WAKE")
def test_an_idle_session_wakes_once_and_tells_of_every_step(stage: Stage) -> None:
    scene, mark = stage(), next(MARKS)
    assert scene.ring(mark) == "turn started"
    request = scene.model.wait(mark)
    assert request.session == scene.native_id
    assert "good morning" in request.text
    scene.processed(mark)
    assert scene.ring(mark) == "already injected"
    assert len(scene.model.turns(mark)) == 1


@pytest.mark.guarantee("G-PI-OPENCODE-WAKE")
def test_unread_mail_is_announced_with_the_humans_prompt(stage: Stage) -> None:
    scene, mark = stage(), next(MARKS)
    scene.bridge.announcement = {"text": f"Wakeline: you have mail ({mark})", "marks": [mark]}
    assert mark in scene.session.prompt("what is new?").news
    scene.processed(mark)


@pytest.mark.guarantee("G-PI-OPENCODE-HUMAN-FIRST")
@pytest.mark.long
def test_a_prompt_that_waits_for_the_bridge_is_answered_though_a_doorbell_rings(stage: Stage) -> None:
    scene, mark, after = stage(), next(MARKS), stage.bridge.length
    scene.bridge.silent = True
    scene.session.terminal.submit("what is new?")
    scene.bridge.wait_for("turn_started", after)
    scene.ring(mark)
    scene.processed(mark, after)
    assert scene.model.wait("what is new?").session == scene.native_id


@pytest.mark.long
@pytest.mark.parametrize("stage", ["opencode"], indirect=True)
@pytest.mark.parametrize("resumed", [False, True], ids=["begun", "resumed"])
def test_a_run_takes_a_doorbell_that_is_early_into_its_only_turn(stage: Stage, resumed: bool) -> None:  # noqa: FBT001 - a case
    """`opencode run` looks no more when its session was idle once.  pi has no seat then."""
    mark, words = next(MARKS), ["run", "--format", "json"]
    if resumed:
        first = json.loads(stage.world.run(*words, "good morning").splitlines()[0])
        words += ["--session", first["sessionID"]]
    stage.bridge.greeting = mark
    before = len(stage.world.model.requests)
    stage.world.run(*words, "what is new?")
    assert stage.bridge.wait_for("rung")["detail"] == "for the next prompt"
    [turn] = [one for one in stage.world.model.turns() if one.number > before]
    assert mark in turn.news
    assert "what is new?" in turn.news


@pytest.mark.guarantee("G-PI-OPENCODE-WAKE")
@pytest.mark.long
def test_mail_to_oneself_is_shown_in_the_first_turn(stage: Stage) -> None:
    stage.bridge.handover = "Wakeline: you have a note from yourself"
    scene = stage()
    first, second = scene.model.wait("good morning"), scene.session.prompt("what else?")
    assert "a note from yourself" in first.news
    assert "a note from yourself" not in second.news


@pytest.mark.guarantee("G-PI-OPENCODE-HUMAN-FIRST")
@pytest.mark.long
def test_in_a_stream_it_waits_and_cuts_nothing_off(stage: Stage) -> None:
    scene, mark, gate = stage(), next(MARKS), threading.Event()
    scene.model.script("talk long", Say("one and more", gate))
    streaming = scene.session.prompt("talk long")
    scene.ring(mark)
    gate.set()
    request = scene.model.wait(mark)
    assert not streaming.cut
    assert "one and more" in request.text
    scene.processed(mark)
    assert request.text.count(mark) == 1


@pytest.mark.guarantee("G-PI-OPENCODE-HUMAN-FIRST")
@pytest.mark.long
def test_after_esc_it_waits_for_the_human(stage: Stage) -> None:
    scene, first, second, gate = stage(), next(MARKS), next(MARKS), threading.Event()
    scene.model.script("talk long", Say("one and more", gate))
    scene.session.prompt("talk long")
    scene.ring(first)
    scene.interrupt()
    assert scene.ring(second) == "for the next prompt"
    gate.set()
    assert scene.model.turns(first) == scene.model.turns(second) == []
    assert second in scene.session.prompt("now go on").text
    for mark in (first, second):
        scene.processed(mark)


@pytest.mark.guarantee("G-COMPANION-WITHDRAWN")
@pytest.mark.long
def test_what_is_called_off_after_esc_is_not_shown_with_the_next_prompt(stage: Stage) -> None:
    scene, gone, stays, gate = stage(), next(MARKS), next(MARKS), threading.Event()
    scene.model.script("talk long", Say("one and more", gate))
    scene.session.prompt("talk long")
    scene.interrupt()
    assert scene.ring(gone) == scene.ring(stays) == "for the next prompt"
    assert scene.bridge.withdraw(scene.native_id, gone)
    assert not scene.bridge.withdraw(scene.native_id, gone)
    gate.set()
    assert stays in scene.session.prompt("now go on").text
    scene.processed(stays)
    assert scene.model.turns(gone) == []
    assert not scene.bridge.withdraw(scene.native_id, stays)


@pytest.mark.guarantee("G-COMPANION-WITHDRAWN")
@pytest.mark.long
@pytest.mark.parametrize("stage", ["opencode"], indirect=True)
def test_what_a_rejected_permission_strands_is_not_prompted_again_if_it_was_called_off(stage: Stage) -> None:
    scene, mark, after = stage.asking(), next(MARKS), stage.bridge.length
    scene.model.script("run it", Shell("echo ran > ran"))
    scene.session.prompt("run it")
    scene.session.terminal.wait("Permission required")
    scene.ring(mark)
    assert not scene.bridge.withdraw(scene.native_id, mark), "opencode deletes nothing in a turn"
    scene.session.terminal.press("Escape")
    scene.bridge.wait_for("turn_ended", after)
    scene.session.prompt("something else")
    assert scene.model.turns(mark) == []


@pytest.mark.guarantee("G-PI-OPENCODE-HUMAN-FIRST")
@pytest.mark.long
def test_a_draft_is_kept(stage: Stage) -> None:
    scene, mark = stage(), next(MARKS)
    scene.session.terminal.type("my unsent draft")
    scene.session.terminal.wait("my unsent draft")
    scene.ring(mark)
    scene.processed(mark)
    assert "my unsent draft" in scene.session.terminal.screen
    assert "my unsent draft" not in scene.model.wait(mark).text


@pytest.mark.guarantee("G-PI-OPENCODE-SURVIVES")
@pytest.mark.long
def test_a_bridge_that_comes_back_is_found_and_told_again(stage: Stage) -> None:
    scene, mark, gate = stage(), next(MARKS), threading.Event()
    scene.model.script(mark, Say("one and more", gate))
    scene.ring(mark)
    scene.model.wait(mark)
    scene.bridge.close()
    gate.set()  # the turn ends while nobody listens
    after = scene.bridge.length
    scene.bridge.open()
    scene.bridge.wait_for("hello", after, native_id=scene.native_id)
    scene.bridge.wait(lambda line: line["type"] == "injected" and mark in line["marks"], after)
    scene.bridge.wait_for("turn_ended", after, status="completed")
    assert scene.ring(mark) == "already injected"
    assert len(scene.model.turns(mark)) == 1


@pytest.mark.guarantee("G-PI-OPENCODE-SURVIVES")
@pytest.mark.long
def test_a_restarted_harness_knows_what_it_has_answered(stage: Stage) -> None:
    scene, old, new = stage(), next(MARKS), next(MARKS)
    scene.ring(old)
    scene.processed(old)
    scene.restart()
    scene.ring(old)
    scene.ring(new)
    assert "good morning" in scene.model.wait(new, timeout=WAIT_SECONDS).text
    assert len(scene.model.turns(old)) == 1


@pytest.mark.guarantee("G-PI-OPENCODE-SURVIVES")
@pytest.mark.long
def test_what_a_killed_harness_had_not_answered_rings_again(stage: Stage) -> None:
    scene, mark, gate = stage(), next(MARKS), threading.Event()
    scene.model.script(mark, Say("one and more", gate))
    scene.ring(mark)
    first = scene.model.wait(mark)
    scene.restart()
    gate.set()
    after = scene.bridge.length
    scene.ring(mark)
    assert scene.model.wait(mark, after=first.number, timeout=WAIT_SECONDS).session == scene.native_id
    scene.processed(mark, after)
    assert len(scene.model.turns(mark)) == 2


@pytest.mark.guarantee("G-PI-OPENCODE-HUMAN-FIRST")
@pytest.mark.long
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_approval_is_left_to_the_human(stage: Stage, answer: str) -> None:
    scene, mark = stage.asking(), next(MARKS)
    after = scene.bridge.length
    scene.model.script("run it", Shell("echo ran > ran"), Say("that is all"))
    scene.session.prompt("run it")
    scene.bridge.wait_for("presence", after, presence="waitingOnApproval")
    scene.session.terminal.wait(QUESTION)
    scene.ring(mark)
    assert QUESTION in scene.session.terminal.screen
    assert scene.model.turns(mark) == []
    for key in KEYS[stage.world.harness][answer]:
        scene.session.terminal.press(key)
    request = scene.model.wait(mark)
    scene.processed(mark)
    assert request.text.count(mark) == 1
    assert len(scene.model.turns(mark)) == 1
    assert (scene.world.project / "ran").exists() == (answer == "yes")
