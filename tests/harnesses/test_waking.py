"""The whole way, with nothing in place of anything but the model: a message, `wakeline up`, a real harness."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import harness_tools
from tests.harnesses.office import acknowledge, held
from tests.harnesses.wired import ANSWERS, KEYS, QUESTION, asking, change, wire
from wakeline.testing.model import ModelServer, Reply, Request, Say, Shell, Use
from wakeline.testing.opencode_server import PASSWORD, OpencodeServe
from wakeline.testing.server import ServerProcess
from wakeline.testing.worlds import HarnessSession, World, make_world

NAMES = ("pi", "opencode")
WAIT_SECONDS = 90.0
DOORBELL = "Wakeline: you have"
MARK = re.compile(r"\bwl-[0-9A-Z]{26}\b")
RESUME = {"pi": "--session", "opencode": "-s"}
_numbers = itertools.count(1)


class Town:
    """A server, two agents, and the world of a harness that is @bob's."""

    def __init__(self, server: ServerProcess, world: World) -> None:
        self.server = server
        self.world = world
        self.model = world.model
        self.ann = server.add_agent("@ann")
        self.bob = server.add_agent("@bob")
        route = {"trigger": "SENT_TO_ME", "harness_target": "bridge-daemon"}
        metadata = {"coalesce_window": 0}
        made = self.call("POST", "/v1/wake-subscriptions", {**route, "harness_target_metadata": metadata}, self.bob)
        self._subscription = made["subscription_id"]
        wire(world, {"WAKELINE_DATA": str(server.data), "WAKELINE_TOKEN": self.bob})

    def call(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        answer = self.server.call(method, path, body, token=token)
        assert answer.status < 300, answer.body
        return answer.json()

    def send(self, to: str = "@bob", **fields: Any) -> str:
        """A message of @ann's to @bob.  Answers its id."""
        said = {"to": [to], "subject": "a subject", "body": f"text {next(_numbers)}", **fields}
        sent: str = self.call("POST", "/v1/messages", said, self.ann)["message_id"]
        return sent

    def coalesce(self, seconds: int) -> None:
        change = {"harness_target_metadata": {"coalesce_window": seconds}}
        self.call("PATCH", f"/v1/wake-subscriptions/{self._subscription}", change, self.bob)

    def read_when_rung(self, times: int = 1) -> None:
        """What the model does at the next doorbells: it reads, acknowledges, and looks whether that was all."""
        for _ in range(times):
            self.model.script(DOORBELL, *[tend] * 20)

    def unread(self) -> int:
        return len(self.call("GET", "/v1/inbox", None, self.bob)["messages"])

    def fetched(self, body: str) -> int:
        """How often this body was brought before a model: the most that any conversation holds."""
        return max((one.text.count(f'"body":"{body}"') for one in self.model.turns()), default=0)

    def open(self, prompt: str = "good morning", *words: str) -> Bob:
        """A harness, spoken to once, so that it has a session, and idle."""
        session, gate = self.world.open(*words), threading.Event()
        self.model.script(prompt, Say("good morning to you", gate))
        request = session.prompt(prompt)
        bob = Bob(self, session, request.session or "")
        bob.wait_presence("active")
        gate.set()
        bob.wait_presence("idle")
        return bob

    def wait_held(self, reason: str) -> None:
        def reasons() -> list[str]:
            return held(lambda path: self.call("GET", path, None, self.bob))

        until(lambda: reason in reasons(), reasons)

    def deliveries(self) -> list[Any]:
        found: list[Any] = self.call("GET", "/v1/deliveries", None, self.bob)["deliveries"]
        return found

    def wait_step(self, step: str) -> Any:
        """The first delivery that has come so far."""
        return until(lambda: next((one for one in self.deliveries() if one["step"] == step), None), self.deliveries)

    def doorbells(self, native_id: str | None = None) -> list[Request]:
        """The requests whose news hold a doorbell."""
        return self.model.turns(DOORBELL, session=native_id)


def tend(request: Request) -> Reply:
    """What was read is acknowledged before more is read, also when a doorbell comes in between."""
    if '"messages":[{' in request.news:
        return acknowledge(request)
    return Say("I have read it.") if '"messages":[]' in request.news else Use("read_messages", {"limit": 100})


class Bob:
    """One running harness of @bob's."""

    def __init__(self, town: Town, session: HarnessSession | None, native_id: str) -> None:
        self.town = town
        self.native_id = native_id
        if session is not None:
            self.session = session
            self.terminal = session.terminal

    @property
    def row(self) -> Any:
        rows = self.town.call("GET", "/v1/sessions", None, self.town.bob)["sessions"]
        return next((row for row in rows if row["native_id"] == self.native_id), None)

    def wait_presence(self, presence: str) -> None:
        until(lambda: (self.row or {}).get("presence") == presence, lambda: self.row)

    def wait_doorbell(self, after: int = 0) -> Request:
        return self.town.model.wait(DOORBELL, session=self.native_id, after=after, timeout=WAIT_SECONDS)

    def restart(self) -> None:
        self.session.stop()
        self.session = self.town.world.open(RESUME[self.town.world.harness], self.native_id)
        self.terminal = self.session.terminal


def until(check: Callable[[], Any], shown: Callable[[], Any], pause: float = 0.1) -> Any:
    """Bounded looks at other processes."""
    end = time.monotonic() + WAIT_SECONDS
    while not (found := check()):
        assert time.monotonic() < end, shown()
        time.sleep(pause)
    return found


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(params=NAMES)
def town(request: pytest.FixtureRequest, model: ModelServer, tmp_path: Path) -> Iterator[Town]:
    harness_tools.need_terminal()
    installed = harness_tools.installed(request.param)
    with (
        ServerProcess(tmp_path / "data", supervisor_seconds=1) as server,
        make_world(installed, tmp_path / "world", model, asks=True) as world,
    ):
        yield Town(server, world)


@pytest.mark.guarantee("G-PI-OPENCODE-WAKE")
def test_an_idle_session_wakes_reads_and_answers(town: Town) -> None:
    bob = town.open()
    town.model.script(DOORBELL, Use("read_messages"))
    sent = town.send(body="the secret is blue")
    reply = {"to": ["@ann"], "body": "thank you", "in_reply_to": sent}
    town.model.script("the secret is blue", Use("post_message", reply), Say("answered"))
    rung = bob.wait_doorbell()
    assert "good morning" in rung.text
    assert "the secret is blue" not in rung.text
    assert "the secret is blue" in town.model.wait("the secret is blue", session=bob.native_id).news
    delivery = town.wait_step("replied")
    assert delivery["outcome"] == "delivered"
    assert f"wl-{delivery['event_id']}" in rung.news
    [back] = town.call("GET", "/v1/inbox", None, town.ann)["messages"]
    assert back["body"] == "thank you"
    assert sent in rung.news
    assert len(town.doorbells()) == 1


@pytest.mark.guarantee("G-SEAT")
@pytest.mark.guarantee("G-PI-OPENCODE-WAKE")
@pytest.mark.long
def test_of_two_siblings_only_the_one_that_is_meant_wakes(town: Town) -> None:
    one, other = town.open("good morning"), town.open("good evening")
    town.send(f"@bob/{one.row['session_id']}")
    assert one.wait_doorbell().session == one.native_id
    town.wait_step("processed")
    assert town.doorbells(other.native_id) == []
    assert len(town.doorbells()) == 1
    town.send()  # into the same thread, so for the one that had the last of it and not for the newest
    until(lambda: len(town.doorbells()) == 2, town.doorbells)
    assert len(town.doorbells(one.native_id)) == 2


@pytest.mark.guarantee("G-SEAT")
@pytest.mark.parametrize("town", ["pi", "opencode"], indirect=True)
@pytest.mark.long
def test_an_answer_wakes_the_session_that_wrote_and_not_a_newer_sibling(town: Town) -> None:
    one = town.open("good morning")
    question = {"to": ["@ann"], "body": "Is there soup?"}
    town.model.script("write to her", Use("post_message", question), Say("written"))
    one.session.prompt("write to her")
    town.model.wait("message_id", session=one.native_id)
    one.wait_presence("idle")
    town.open("good evening")
    [asked] = town.call("GET", "/v1/inbox", None, town.ann)["messages"]
    assert asked["session_id"] == one.row["session_id"]
    town.send(in_reply_to=asked["message_id"])
    assert one.wait_doorbell().session == one.native_id
    assert len(town.doorbells()) == 1


@pytest.mark.guarantee("G-PI-OPENCODE-HUMAN-FIRST")
@pytest.mark.long
def test_in_a_stream_nothing_is_cut_off(town: Town) -> None:
    bob, gate = town.open(), threading.Event()
    town.model.script("talk long", Say("one and more", gate))
    streaming = bob.session.prompt("talk long")
    bob.wait_presence("active")
    town.send()
    town.wait_step("triggered")
    gate.set()
    rung = bob.wait_doorbell()
    assert not streaming.cut
    assert "one and more" in rung.text
    town.wait_step("processed")
    assert len(town.doorbells()) == 1


@pytest.mark.guarantee("G-PI-OPENCODE-HUMAN-FIRST")
@pytest.mark.long
def test_in_a_call_of_a_tool_nothing_is_cut_off(town: Town) -> None:
    bob = town.open()
    (town.world.project / "wait").touch()
    # opencode asks before it runs a command, but not before it reads its own tools; pi does not ask at all.
    command = "while [ -e wait ]; do sleep 0.1; done; echo finished"
    town.model.script("run it", Shell(command), Say("that is all"))
    bob.session.prompt("run it")
    if town.world.harness == "opencode":
        bob.terminal.wait(QUESTION)
        bob.terminal.press("Enter")
    bob.wait_presence("active")
    town.send()
    town.wait_step("triggered")
    (town.world.project / "wait").unlink()
    rung = bob.wait_doorbell()
    assert "finished" in rung.text
    town.wait_step("processed")
    assert len(town.doorbells()) == 1


@pytest.mark.guarantee("G-PI-OPENCODE-HUMAN-FIRST")
@pytest.mark.long
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_approval_is_waited_for(town: Town, answer: str) -> None:
    bob = town.open("good morning", *asking(town.world))
    town.model.script("run it", Shell("echo ran > ran"), Say("that is all"))
    bob.session.prompt("run it")
    bob.terminal.wait(QUESTION)
    bob.wait_presence("waitingOnApproval")
    town.send()
    town.wait_held("waiting_on_approval")
    assert town.doorbells() == []
    assert QUESTION in bob.terminal.screen
    for key in KEYS[town.world.harness][answer]:
        bob.terminal.press(key)
    bob.terminal.wait_gone(QUESTION)
    bob.wait_doorbell()
    town.wait_step("processed")
    assert len(town.doorbells()) == 1
    assert (town.world.project / "ran").exists() == (answer == "yes")


@pytest.mark.guarantee("G-PI-OPENCODE-HUMAN-FIRST")
@pytest.mark.long
def test_a_draft_is_kept(town: Town) -> None:
    bob = town.open()
    bob.terminal.type("my unsent draft")
    bob.terminal.wait("my unsent draft")
    if town.world.harness == "pi":
        bob.wait_presence("userTyping")
    town.send()
    rung = bob.wait_doorbell()  # in pi not before the draft has been left alone for a while
    assert "my unsent draft" not in rung.text
    town.wait_step("processed")
    assert "my unsent draft" in bob.terminal.screen


@pytest.mark.guarantee("G-PI-OPENCODE-WAKE")
@pytest.mark.long
def test_a_burst_is_few_doorbells_and_every_message_is_read_once(town: Town) -> None:
    bob = town.open()
    town.coalesce(3)
    town.read_when_rung(times=20)
    for number in range(20):
        town.send(body=f"number {number}.")
    until(lambda: town.unread() == 0, town.deliveries)
    until(lambda: all(one["outcome"] for one in town.deliveries()), town.deliveries)
    assert 1 <= len(town.doorbells()) <= 3
    assert {request.session for request in town.doorbells()} == {bob.native_id}
    assert [town.fetched(f"number {number}.") for number in range(20)] == [1] * 20


@pytest.mark.guarantee("G-PI-OPENCODE-WAKE")
@pytest.mark.long
def test_next_turn_mail_is_announced_with_the_humans_prompt(town: Town) -> None:
    bob = town.open()
    town.send(wake_policy="next_turn")
    town.call("POST", "/v1/messages", {"to": ["@bob"], "body": "a note to myself"}, town.bob)
    request = bob.session.prompt("what is new?")
    assert DOORBELL in request.news
    town.wait_step("processed")
    assert len(town.doorbells()) == 1


@pytest.mark.guarantee("G-PI-OPENCODE-WAKE")
@pytest.mark.long
def test_a_note_to_oneself_is_shown_when_a_session_begins(town: Town) -> None:
    town.call("POST", "/v1/messages", {"to": ["@bob"], "body": "a note to myself"}, town.bob)
    bob = town.open()
    if not town.doorbells():  # opencode makes a session with its first prompt, and holds no prompt up for long
        bob.session.prompt("what else?")
    [request] = town.doorbells()
    assert "from yourself" in request.news


@pytest.mark.guarantee("G-PI-OPENCODE-SURVIVES")
@pytest.mark.long
def test_a_killed_harness_is_rung_when_it_is_back(town: Town) -> None:
    bob, gate = town.open(), threading.Event()
    town.model.script(DOORBELL, Say("one and more", gate))
    town.send(body="the first")
    bob.wait_doorbell()
    bob.session.stop()  # in the middle of its answer
    gate.set()
    until(lambda: bob.row is None, lambda: bob.row)
    town.send(body="the second")
    town.read_when_rung(times=3)
    bob.restart()
    until(lambda: town.unread() == 0, town.deliveries)
    assert {request.session for request in town.doorbells()} == {bob.native_id}
    assert "good morning" in town.doorbells()[-1].text
    assert len(town.doorbells()) <= 3
    assert (town.fetched("the first"), town.fetched("the second")) == (1, 1)


@pytest.mark.guarantee("G-PI-OPENCODE-SURVIVES")
@pytest.mark.long
@pytest.mark.parametrize("moment", ["sent", "rung"])
def test_a_server_killed_while_it_wakes_rings_no_more_than_once_again(town: Town, moment: str) -> None:
    bob, gate = town.open(), threading.Event()
    town.model.script(DOORBELL, Say("one and more", gate))
    town.send(body="the first")
    if moment == "rung":
        bob.wait_doorbell()
    town.server.kill()
    gate.set()
    town.server.start()
    bob.wait_doorbell()
    town.wait_step("processed")
    assert len(town.doorbells()) == 1
    town.read_when_rung()
    town.send(body="the second")
    until(lambda: town.unread() == 0, town.deliveries)
    assert len(town.doorbells()) == 2
    assert (town.fetched("the first"), town.fetched("the second")) == (1, 1)


@contextmanager
def served_town(model: ModelServer, tmp_path: Path) -> Iterator[tuple[Town, OpencodeServe]]:
    """A town whose @bob is a server of opencode's, without the plugin."""
    installed = harness_tools.installed("opencode")
    with make_world(installed, tmp_path / "world", model) as world, OpencodeServe(world) as served:
        secret = tmp_path / "password"
        secret.write_text(PASSWORD)
        settings: dict[str, Any] = {
            "opencode_servers": served.url,
            "opencode_password_file": str(secret),
            "supervisor_seconds": 1,
        }
        with ServerProcess(tmp_path / "data", **settings) as server:
            town = Town(server, world)
            change(world.home / ".config/opencode/opencode.json", plugin=[])
            served.kill()
            served.start()  # with the configuration that names the agent
            yield town, served


def spoken_to(town: Town, served: OpencodeServe) -> Bob:
    """Nothing tells when the bridge has found the server again; what it did not see made, it sees speak."""
    bob = Bob(town, None, served.new_session())
    until(lambda: served.prompt(bob.native_id, "good morning") or bob.row, town.deliveries, pause=2)
    bob.wait_presence("idle")
    return bob


@pytest.mark.guarantee("G-PI-OPENCODE-WAKE")
@pytest.mark.long
def test_a_session_of_an_opencode_server_is_found_and_wakes(model: ModelServer, tmp_path: Path) -> None:
    with served_town(model, tmp_path) as (town, served):
        bob = spoken_to(town, served)
        town.send()
        assert bob.wait_doorbell().session == bob.native_id
        town.wait_step("processed")
        assert len(town.doorbells()) == 1


@pytest.mark.guarantee("G-PI-OPENCODE-WAKE")
@pytest.mark.long
def test_a_session_of_an_opencode_server_is_told_what_waits_for_its_turns(model: ModelServer, tmp_path: Path) -> None:
    with served_town(model, tmp_path) as (town, served):
        bob = spoken_to(town, served)
        town.send(wake_policy="next_turn")
        assert town.doorbells() == []
        gate = threading.Event()
        model.script("what is new?", Say("one and more", gate))
        served.prompt(bob.native_id, "what is new?")
        until(lambda: DOORBELL in str(served.call("GET", f"/session/{bob.native_id}/message")), town.deliveries)
        gate.set()
        told = bob.wait_doorbell()
        assert "what is new?" in told.text
        assert town.wait_step("processed")["outcome"] == "delivered"
        assert len(town.doorbells()) == 1
        town.call("POST", "/v1/messages", {"to": ["@bob"], "body": "a note to myself"}, town.bob)
        other = spoken_to(town, served)
        for words in ("what else?", "is that all?"):  # its first turn may have been over before it could be told
            served.prompt(other.native_id, words)
            model.wait(words, session=other.native_id)
            other.wait_presence("idle")
        [note] = town.doorbells(other.native_id)
        assert "yourself" in note.news
