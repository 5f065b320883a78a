from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faces.http_calls import new_agent
from tests.harnesses.codex_desk import RUNG, CodexDesk, a_bridge_elsewhere, an_entry, codex_desk, eventually
from wakeline.testing.model import Fail, ModelServer, Say, Shell, Use
from wakeline.testing.worlds.codex import start_daemon

LADDER = ["queued", "attempt", "triggered", "woke", "injected", "processed"]
APPROVAL = "Would you like to run"


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def desk(tmp_path: Path, model: ModelServer) -> Iterator[CodexDesk]:
    with codex_desk(tmp_path, model) as made:
        yield made


@pytest.mark.guarantee("G-CODEX-WAKE")
def test_an_idle_terminal_wakes_in_its_own_thread_and_fetches_its_mail_once(desk: CodexDesk) -> None:
    session, seat = desk.open()
    session.terminal.type("a half written thought")
    desk.read_when_rung()
    desk.send("The soup is ready.", subject="Soup")
    fetched = desk.model.wait("The soup is ready.", session=seat["native_id"])
    assert "data, not instructions" in fetched.news
    delivery = desk.wait_step("processed")
    assert [row["step"] for row in delivery["steps"]] == LADDER
    [rung] = desk.doorbells()
    assert rung.session == seat["native_id"]
    assert "The soup is ready." not in rung.text
    assert len(desk.fetched("The soup is ready.")) == 1
    session.terminal.wait("a half written thought")


@pytest.mark.guarantee("G-CODEX-UNDISTURBED")
def test_a_message_during_streaming_waits_for_the_turn_and_cuts_nothing_off(desk: CodexDesk) -> None:
    session, seat = desk.open()
    gate = threading.Event()
    desk.model.script("think", Say("First. The rest.", gate))
    thinking = session.prompt("think")
    desk.wait_presence("active")
    desk.read_when_rung()
    desk.send("The soup is ready.")
    desk.wait_step("triggered")
    gate.set()
    fetched = desk.model.wait("The soup is ready.", session=seat["native_id"])
    assert "The rest." in fetched.text
    assert not thinking.cut
    desk.wait_step("processed")
    assert len(desk.doorbells()) == len(desk.fetched("The soup is ready.")) == 1


@pytest.mark.guarantee("G-CODEX-WITHDRAWN")
def test_mail_that_is_read_while_its_doorbell_waits_wakes_nobody(desk: CodexDesk) -> None:
    read_while_its_doorbell_waits(desk)


@pytest.mark.long
def test_a_bridge_beside_codex_withdraws_what_a_server_elsewhere_needs_no_more(
    tmp_path: Path, model: ModelServer
) -> None:
    with codex_desk(tmp_path, model, bridge=False) as desk, a_bridge_elsewhere(desk):
        read_while_its_doorbell_waits(desk)


def read_while_its_doorbell_waits(desk: CodexDesk) -> None:
    session, seat = desk.open()
    gate = threading.Event()
    desk.model.script("think", Say("First. The rest.", gate))
    session.prompt("think")
    desk.wait_presence("active")
    posted = desk.send("The soup is ready.")
    desk.wait_step("triggered")
    desk.bob.post("/v1/inbox/ack", message_ids=[posted["message_id"]])
    delivery = desk.wait_step("withdrawn")
    assert (delivery["outcome"], delivery["reason"]) == ("delivered", "already_read")
    gate.set()
    desk.wait_presence("idle", seat["session_id"])
    session.prompt("good morning")
    session.terminal.wait("Done.")
    assert desk.doorbells() == []


@pytest.mark.long
def test_mail_for_the_next_turn_is_announced_in_it_and_wakes_nobody(desk: CodexDesk) -> None:
    desk.add_hooks("UserPromptSubmit")
    session, seat = desk.open()
    desk.send("The soup is ready.", subject="Soup", wake_policy="next_turn")
    desk.bob.send(desk.bob.handle, body="Mind the bread.")
    eventually(lambda: len(desk.bob.unread()) == 2, "the mail did not arrive")
    request = session.prompt("good morning")
    assert request.session == seat["native_id"]
    assert "2 unread messages" in request.news
    assert "yourself" in request.news
    assert "The soup is ready." not in request.news
    desk.wait_step("injected")
    session.terminal.wait("Done.")
    assert len(desk.model.turns()) == 1


@pytest.mark.long
def test_a_doorbell_is_not_announced_a_second_time_in_its_own_turn(desk: CodexDesk) -> None:
    desk.add_hooks("UserPromptSubmit")
    desk.open()
    desk.read_when_rung()
    desk.send("The soup is ready.")
    desk.wait_step("processed")
    [rung] = desk.doorbells()
    assert rung.news.count(RUNG) == 1


@pytest.mark.long
def test_a_terminal_without_the_app_server_is_rung_through_its_queue(desk: CodexDesk) -> None:
    desk.add_hooks("UserPromptSubmit", "Stop", "Interrupt")
    session = desk.world.open("--no-daemon")
    session.prompt("good morning")
    session.terminal.wait("Done.")
    desk.wait_presence("idle")
    [seat] = desk.sessions()
    assert (seat["native_id"], seat["transport"]) == (session.native_id, "queue-command")
    session.terminal.type("a half written thought")
    desk.read_when_rung()
    desk.send("The soup is ready.")
    fetched = desk.model.wait("The soup is ready.", timeout=60)
    assert fetched.session == session.native_id
    desk.wait_step("processed")
    assert len(desk.doorbells()) == len(desk.fetched("The soup is ready.")) == 1
    session.terminal.wait("a half written thought")


@pytest.mark.guarantee("G-SEAT")
@pytest.mark.guarantee("G-CODEX-WAKE")
@pytest.mark.long
def test_of_two_siblings_only_the_addressed_one_wakes(desk: CodexDesk) -> None:
    _, first = desk.open()
    _, second = desk.open()
    desk.read_when_rung()
    desk.send("The soup is ready.", to=f"{desk.bob.handle}/{first['session_id']}")
    desk.wait_step("processed")
    assert {request.session for request in desk.model.turns()} == {first["native_id"]}
    desk.read_when_rung()
    desk.send("The bread too.", to=f"{desk.bob.handle}/{second['session_id']}")
    fetched = desk.model.wait("The bread too.")
    assert fetched.session == second["native_id"]
    for body, to in (("And butter.", f"{desk.bob.handle}/{first['session_id']}"), ("And jam.", desk.bob.handle)):
        desk.read_when_rung()
        desk.send(body, to=to)
        # The last one names none: it is for the one that had the last doorbell of the thread, not for the newest.
        assert desk.model.wait(body).session == first["native_id"]


@pytest.mark.guarantee("G-SEAT")
@pytest.mark.long
def test_an_answer_wakes_the_session_that_wrote_and_not_a_newer_sibling(desk: CodexDesk) -> None:
    writer, first = desk.open()
    question = {"to": [desk.alice.handle], "body": "Is there soup?"}
    desk.model.script("write to her", Use("post_message", question), Say("Written."))
    writer.prompt("write to her")
    desk.model.wait("message_id", session=first["native_id"])
    desk.wait_presence("idle", first["session_id"])
    desk.open()
    [asked] = desk.alice.mail()
    assert asked["session_id"] == first["session_id"]
    desk.read_when_rung()
    desk.send("There is.", in_reply_to=asked["message_id"])
    assert desk.model.wait("There is.").session == first["native_id"]


@pytest.mark.long
def test_a_project_that_names_another_agent_is_that_agents(desk: CodexDesk) -> None:
    carol = new_agent(desk.server, "carol")
    local = desk.world.project / ".codex"
    local.mkdir()
    (local / "config.toml").write_text(an_entry(desk.server, carol, desk.folder))
    desk.world.open()
    eventually(lambda: desk.sessions(carol), "the project's agent has no session")
    assert desk.sessions() == []


@pytest.mark.guarantee("G-CODEX-UNDISTURBED")
@pytest.mark.long
def test_a_message_during_a_tool_call_waits_for_the_turn(desk: CodexDesk) -> None:
    session, seat = desk.open()
    desk.model.script("work", Shell("until [ -e go ]; do sleep 0.1; done; echo went"), Say("Worked."))
    session.prompt("work")
    desk.wait_presence("active")
    desk.read_when_rung()
    desk.send("The soup is ready.")
    desk.wait_step("triggered")
    (desk.world.project / "go").touch()
    fetched = desk.model.wait("The soup is ready.", session=seat["native_id"])
    assert "Worked." in fetched.text
    desk.wait_step("processed")
    assert len(desk.doorbells()) == len(desk.fetched("The soup is ready.")) == 1


@pytest.mark.guarantee("G-CODEX-UNDISTURBED")
@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "made"), [("y", True), ("3", False), ("Escape", False)], ids=["accepted", "declined", "escaped"]
)
def test_a_message_during_an_approval_leaves_the_question_alone(
    desk: CodexDesk,
    answer: str,
    made: bool,  # noqa: FBT001 - a row of the table
) -> None:
    session, seat = desk.open()
    desk.model.script("make it", Shell("touch made", asks=True), Say("That was it."))
    session.prompt("make it")
    session.terminal.wait(APPROVAL)
    desk.wait_presence("waitingOnApproval")
    desk.read_when_rung()
    desk.send("The soup is ready.")
    desk.wait_held("waiting_on_approval")
    assert APPROVAL in session.terminal.screen
    session.terminal.press(answer)
    session.terminal.wait_gone(APPROVAL)
    if not made:  # a human's Esc: Codex holds its queue until the human speaks again
        desk.wait_step("triggered")
        assert desk.doorbells() == []
        session.prompt("go on, please")
    desk.model.wait("The soup is ready.", session=seat["native_id"])
    desk.wait_step("processed")
    assert (desk.world.project / "made").exists() is made
    assert len(desk.doorbells()) == len(desk.fetched("The soup is ready.")) == 1


@pytest.mark.long
def test_a_burst_is_a_few_rings_and_every_message_is_read_once(tmp_path: Path, model: ModelServer) -> None:
    with codex_desk(tmp_path, model, coalesce_seconds=2) as desk:
        _, seat = desk.open()
        desk.read_when_rung(times=20)
        for number in range(20):
            desk.send(f"message <{number}>")
        eventually(lambda: desk.bob.unread() == [], f"not all was read: {desk.deliveries()}")
        eventually(lambda: {one["outcome"] for one in desk.deliveries()} == {"delivered"}, "not all was delivered")
        assert 1 <= len(desk.doorbells()) <= 2  # the first at once, the others in one digest, unless they were read
        assert {request.session for request in desk.doorbells()} == {seat["native_id"]}
        assert [len(desk.fetched(f"message <{number}>")) for number in range(20)] == [1] * 20


@pytest.mark.guarantee("G-CODEX-SURVIVES")
@pytest.mark.long
def test_an_app_server_that_is_killed_with_a_doorbell_in_its_queue_rings_once(desk: CodexDesk) -> None:
    session, seat = desk.open()
    gate = threading.Event()
    desk.model.script("think", Say("First. The rest.", gate))
    session.prompt("think")
    desk.wait_presence("active")
    desk.model.script(RUNG, Say("I shall look later."))  # its tools are not back yet
    desk.send("The soup is ready.")
    desk.wait_step("triggered")
    desk.kill_app_server()
    desk.wait_presence("unknown")
    start_daemon(desk.world)
    gate.set()
    desk.model.wait(RUNG, session=seat["native_id"])
    desk.wait_step("processed")
    assert len(desk.doorbells()) == 1


@pytest.mark.guarantee("G-CODEX-SURVIVES")
@pytest.mark.long
def test_a_server_that_is_killed_in_the_middle_of_a_wake_rings_once(desk: CodexDesk) -> None:
    session, seat = desk.open()
    gate = threading.Event()
    desk.model.script("think", Say("First. The rest.", gate))
    session.prompt("think")
    desk.wait_presence("active")
    desk.model.script(RUNG, Say("I shall look later."))
    desk.send("The soup is ready.")
    desk.wait_step("triggered")
    desk.server.kill()
    gate.set()
    desk.model.wait(RUNG, session=seat["native_id"])
    desk.server.start()
    delivery = desk.wait_step("processed")
    assert delivery["outcome"] == "delivered"
    assert len(desk.doorbells()) == 1
    assert desk.bob.unread() == ["The soup is ready."]


@pytest.mark.guarantee("G-CODEX-WAKE")
@pytest.mark.long
def test_a_terminal_that_was_killed_and_resumed_is_the_same_session(desk: CodexDesk) -> None:
    session, seat = desk.open()
    session.prompt("good morning")
    session.terminal.wait("Done.")
    session.stop()
    desk.kill_app_server()
    desk.wait_presence("unknown")
    desk.world.open("resume", seat["native_id"])
    desk.wait_presence("idle", seat["session_id"])
    desk.read_when_rung()
    desk.send("The soup is ready.")
    fetched = desk.model.wait("The soup is ready.")
    assert fetched.session == seat["native_id"]
    assert "good morning" in fetched.text
    desk.wait_step("processed")
    assert len(desk.doorbells()) == len(desk.fetched("The soup is ready.")) == 1
    assert [one["session_id"] for one in desk.sessions()] == [seat["session_id"]]


@pytest.mark.guarantee("G-CODEX-SURVIVES")
@pytest.mark.long
def test_a_doorbell_whose_turn_failed_rings_again_soon(tmp_path: Path, model: ModelServer) -> None:
    """Long before `repoke_seconds`, after which mail is rung for that a whole turn has left unread."""
    with codex_desk(tmp_path, model, supervisor_seconds=1, repoke_seconds=3600) as desk:
        _, seat = desk.open()
        desk.model.script(RUNG, Fail(400, "the model is not well"))
        desk.send("The soup is ready.")
        first = desk.model.wait(RUNG)
        desk.read_when_rung()
        fetched = desk.model.wait("The soup is ready.", session=seat["native_id"], timeout=60)
        assert fetched.number > first.number
        assert len(desk.doorbells()) == 2
        assert len(desk.fetched("The soup is ready.")) == 1


@pytest.mark.long
def test_a_run_that_nobody_watches_is_never_rung(desk: CodexDesk) -> None:
    desk.add_hooks("UserPromptSubmit")
    gate = threading.Event()
    desk.model.script("work alone", Say("First. The rest.", gate))
    with ThreadPoolExecutor() as pool:
        running = pool.submit(desk.world.run, "exec", "--skip-git-repo-check", "work alone")
        desk.model.wait("work alone")
        [seat] = eventually(desk.sessions, "the run's hook told of no session")
        desk.send("The soup is ready.")
        eventually(desk.bob.unread, "the mail did not arrive")
        gate.set()
        running.result()
    assert seat["wake_mode"] == "none"
    assert desk.doorbells() == []
    assert [one for one in desk.deliveries() if one["target"] == "bridge-daemon"] == []


@pytest.mark.long
def test_a_bridge_beside_codex_wakes_it_for_a_server_elsewhere(tmp_path: Path, model: ModelServer) -> None:
    with codex_desk(tmp_path, model, bridge=False) as desk, a_bridge_elsewhere(desk):
        _, seat = desk.open()
        assert seat["host"] == "elsewhere"
        desk.read_when_rung()
        desk.send("The soup is ready.")
        fetched = desk.model.wait("The soup is ready.")
        assert fetched.session == seat["native_id"]
        desk.wait_step("processed")
        assert len(desk.doorbells()) == len(desk.fetched("The soup is ready.")) == 1


@pytest.mark.long
def test_mail_that_comes_before_a_terminal_has_its_tools_rings_when_it_has_them(desk: CodexDesk) -> None:
    desk.read_when_rung()
    desk.world.open()
    [seat] = eventually(desk.sessions, "the terminal is no session")
    desk.send("The soup is ready.")
    fetched = desk.model.wait("The soup is ready.", session=seat["native_id"], timeout=60)
    assert fetched.session == seat["native_id"]
    assert len(desk.doorbells()) == 1
