"""A message wakes the real Claude Code, through the real server: what reached the model is what counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import harness_tools
from tests.harnesses.office import DOORBELL, HARNESS, QUESTION, Office, answer, eventually, office_in, steps
from wakeline.testing.model import Say, Shell, Use

SUMMARY = "detailed summary"  # what Claude Code asks the model for when it compacts
LADDER = ["queued", "triggered", "woke", "injected", "processed"]


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with office_in(tmp_path) as made:
        yield made


@pytest.fixture
def asking_office(tmp_path: Path) -> Iterator[Office]:
    """Where commands are run only with the human's leave."""
    with office_in(tmp_path, asks=True) as made:
        yield made


@pytest.mark.guarantee("G-CLAUDE-CODE-WAKES")
def test_an_idle_session_wakes_reads_its_mail_once_and_answers(office: Office) -> None:
    session = office.open()
    office.read_when_rung(Use("post_message", {"thread_id": office.thread, "body": "on it"}))
    office.send("please look")
    rung = office.model.wait(DOORBELL)
    delivery = office.wait_for_step("processed")
    assert office.alice.unread() == ["on it"]
    assert office.bob.unread() == []
    assert {one.session for one in office.model.turns()} == {session.native_id}
    assert office.doorbells() == [rung]
    assert "please look" not in rung.news, "a doorbell holds no body"
    assert office.fetched("please look") == 1
    assert delivery["outcome"] == "delivered"
    climbed = [step for step in steps(delivery) if step in LADDER]
    assert climbed == [step for step in LADDER if step in climbed]
    assert {"woke", "injected", "processed"} <= set(climbed)


@pytest.mark.guarantee("G-CLAUDE-CODE-WAKES")
def test_of_two_sessions_only_the_addressed_one_wakes(office: Office) -> None:
    first, second = office.open(), office.open()
    seat = office.wait_for(first, "idle")
    assert seat["session_id"] != office.wait_for(second, "idle")["session_id"]
    office.read_when_rung()
    office.send("for the first", to=f"{office.bob.handle}/{seat['session_id']}")
    office.wait_for_step("processed")
    assert {one.session for one in office.model.turns()} == {first.native_id}
    assert office.fetched("for the first") == 1


@pytest.mark.guarantee("G-SEAT")
@pytest.mark.long
def test_an_answer_wakes_the_session_that_wrote_and_not_a_newer_sibling(office: Office) -> None:
    first = office.open()
    question = {"to": [office.alice.handle], "body": "Is there soup?"}
    office.model.script("write to her", Use("post_message", question), Say("written"))
    office.talk(first, "write to her")
    office.open()
    [asked] = office.alice.mail()
    assert asked["session_id"] == office.wait_for(first, "idle")["session_id"]
    office.read_when_rung()
    office.alice.send(body="There is.", in_reply_to=asked["message_id"], wake_policy="immediate")
    assert office.model.wait(DOORBELL).session == first.native_id


@pytest.mark.guarantee("G-CLAUDE-CODE-HUMAN-FIRST")
@pytest.mark.long
def test_mail_for_the_next_turn_waits_for_it_and_is_announced_there(office: Office) -> None:
    session = office.open()
    office.send("no hurry", wake_policy="next_turn")
    office.read_when_rung()
    asked = session.prompt("good morning")
    assert DOORBELL in asked.news
    assert asked.number == office.model.turns()[0].number
    eventually(lambda: office.fetched("no hurry") == 1, "it was not read")
    office.wait_for_step("injected")
    assert office.doorbells() == [asked]


@pytest.mark.guarantee("G-CLAUDE-CODE-HUMAN-FIRST")
@pytest.mark.long
def test_a_message_during_a_stream_rings_after_it(office: Office) -> None:
    session = office.open()
    gate = threading.Event()
    office.model.script("tell a story", Say("Once upon a time", gate))
    story = session.prompt("tell a story")
    office.wait_for(session, "active")
    office.read_when_rung()
    office.send("when you are done")
    office.wait_for_step("triggered")
    gate.set()
    rung = office.model.wait(DOORBELL)
    office.wait_for_step("processed")
    assert not story.cut
    assert "Once upon a time" in rung.text
    assert office.doorbells() == [rung]
    assert office.fetched("when you are done") == 1


@pytest.mark.guarantee("G-CLAUDE-CODE-HUMAN-FIRST")
@pytest.mark.long
def test_a_message_during_a_tool_call_goes_with_its_result(office: Office) -> None:
    session = office.open()
    go = office.world.project / "go"
    office.model.script("run it", Shell(f"until [ -e {go} ]; do sleep 0.1; done; echo finished"))
    session.prompt("run it")
    office.wait_for(session, "active")
    office.read_when_rung()
    office.send("by the way")
    office.wait_for_step("triggered")
    go.touch()
    rung = office.model.wait(DOORBELL)
    office.wait_for_step("processed")
    assert "finished" in rung.news
    assert office.doorbells() == [rung]
    assert office.fetched("by the way") == 1


@pytest.mark.guarantee("G-CLAUDE-CODE-HUMAN-FIRST")
@pytest.mark.long
def test_a_permission_dialog_is_left_alone_and_the_mail_comes_after_it(asking_office: Office) -> None:
    office = asking_office
    session = office.open()
    made = office.world.project / "made"
    office.model.script("make it", Shell(f"touch {made}"), Say("Made."))
    session.prompt("make it")
    office.wait_for(session, "waitingOnApproval")
    office.read_when_rung()
    session.terminal.wait(QUESTION)
    office.send("after that")
    office.wait_held("waiting_on_approval")
    assert QUESTION in session.terminal.screen
    assert office.doorbells() == []
    assert not made.exists()
    answer(session.terminal, "Yes")
    office.wait_for_step("processed")
    assert made.exists()
    assert len(office.doorbells()) == 1
    assert office.fetched("after that") == 1


@pytest.mark.guarantee("G-CLAUDE-CODE-HUMAN-FIRST")
@pytest.mark.long
@pytest.mark.parametrize("way", ["No", "Escape"])
def test_a_human_who_refuses_is_heard_before_the_mail(asking_office: Office, way: str) -> None:
    office = asking_office
    session = office.open()
    made = office.world.project / "made"
    office.model.script("make it", Shell(f"touch {made}"), Say("Made."))
    session.prompt("make it")
    office.wait_for(session, "waitingOnApproval")
    office.send("after that")
    office.wait_held("waiting_on_approval")
    answer(session.terminal, way)
    office.wait_for(session, "userTyping")
    asked = len(office.model.turns())
    office.read_when_rung()
    spoken = session.prompt("something else")
    assert spoken == office.model.turns()[asked], "nothing was said between the human's no and the human's word"
    assert DOORBELL in spoken.news
    office.wait_for_step("injected")
    eventually(lambda: office.fetched("after that") == 1, "it was not read")
    assert not made.exists()


@pytest.mark.guarantee("G-CLAUDE-CODE-HUMAN-FIRST")
@pytest.mark.long
def test_after_esc_nothing_rings_until_the_human_has_spoken(office: Office) -> None:
    session = office.open()
    office.model.script("tell a story", Say("Once upon a time", threading.Event()))
    story = session.prompt("tell a story")
    office.wait_for(session, "active")
    office.send("in the middle")
    office.wait_for_step("triggered")
    session.terminal.press("Escape")
    office.wait_for(session, "userTyping")
    office.send("and another")
    asked = len(office.model.turns())
    office.read_when_rung()
    spoken = session.prompt("where were we")
    assert story.cut
    assert spoken == office.model.turns()[asked]
    eventually(lambda: office.fetched("in the middle") == office.fetched("and another") == 1, "they were not read")


@pytest.mark.guarantee("G-CLAUDE-CODE-HUMAN-FIRST")
@pytest.mark.long
def test_a_draft_is_kept(office: Office) -> None:
    session = office.open()
    session.terminal.type("a draft of mine")
    session.terminal.wait("a draft of mine")
    office.read_when_rung()
    office.send("hello")
    office.wait_for_step("processed")
    session.terminal.press("Enter")
    office.model.wait("a draft of mine")
    assert office.fetched("hello") == 1


@pytest.mark.guarantee("G-CLAUDE-CODE-WAKES")
@pytest.mark.long
def test_a_burst_is_a_few_rings_and_every_message_is_read_once(tmp_path: Path) -> None:
    with office_in(tmp_path, coalesce_seconds=3) as office:
        office.open()
        office.read_when_rung(times=20)
        for number in range(20):
            office.send(f"number {number}.")
        eventually(lambda: office.bob.unread() == [], f"not all was read: {office.deliveries()}")
        office.wait_for_step("processed")
        assert 1 <= len(office.doorbells()) <= 3
        assert [office.fetched(f"number {number}.") for number in range(20)] == [1] * 20


@pytest.mark.guarantee("G-CLAUDE-CODE-SURVIVES")
@pytest.mark.long
def test_a_session_that_was_killed_is_woken_when_it_is_resumed(office: Office) -> None:
    session = office.open()
    office.talk(session, "remember the blue door")
    native_id, seat = session.native_id, office.wait_for(session, "idle")
    session.stop()
    eventually(lambda: office.seat(session) is None, "its end was not noticed")
    office.send("are you there")
    office.read_when_rung()
    again = office.open("--resume", native_id)
    rung = office.model.wait(DOORBELL)
    assert rung.session == native_id
    assert "remember the blue door" in rung.text
    assert office.wait_for_step("processed")["session_id"] == seat["session_id"]
    assert again.native_id == native_id
    assert office.fetched("are you there") == 1


@pytest.mark.guarantee("G-CLAUDE-CODE-SURVIVES")
@pytest.mark.long
def test_a_session_that_was_killed_with_a_doorbell_in_it_hears_of_the_mail_again(office: Office) -> None:
    session = office.open()
    office.talk(session, "remember the blue door")
    office.model.script(DOORBELL, Say("Let me see", threading.Event()))
    office.send("do not lose me")
    first = office.model.wait(DOORBELL)
    native_id = session.native_id
    session.stop()
    eventually(lambda: office.seat(session) is None, "its end was not noticed")
    office.read_when_rung()
    again = office.open("--resume", native_id)
    asked = again.prompt("go on")
    assert first.session == asked.session == native_id
    eventually(lambda: office.fetched("do not lose me") == 1, f"it was not read: {office.deliveries()}")
    assert len(office.doorbells()) <= 2


@pytest.mark.guarantee("G-CLAUDE-CODE-SURVIVES")
@pytest.mark.long
def test_a_server_that_dies_in_the_middle_of_a_wake_loses_nothing_and_rings_at_most_once_more(office: Office) -> None:
    session = office.open()
    gate = threading.Event()
    office.model.script(DOORBELL, Say("Let me see", gate))
    office.send("survive this")
    office.model.wait(DOORBELL)
    office.server.kill()
    gate.set()
    office.server.start()
    office.wait_for(session, "idle")
    office.read_when_rung(times=2)
    office.send("and this")
    eventually(lambda: office.bob.unread() == [], f"not all was read: {office.deliveries()}")
    office.wait_for(session, "idle")
    assert office.fetched("survive this") == office.fetched("and this") == 1
    assert len(office.doorbells()) <= 3
    assert {one.session for one in office.model.turns()} == {session.native_id}


@pytest.mark.guarantee("G-CLAUDE-CODE-SURVIVES")
@pytest.mark.long
def test_what_the_model_saw_while_the_server_was_away_is_known_when_it_is_back(office: Office) -> None:
    session = office.open()
    gate = threading.Event()
    office.model.script("tell a story", Say("Once upon a time", gate))
    session.prompt("tell a story")
    office.wait_for(session, "active")
    office.send("kept for the end")
    office.wait_for_step("triggered")
    office.server.kill()
    gate.set()
    rung = office.model.wait(DOORBELL)
    rung.answered.wait(30)
    office.server.start()
    office.wait_for_step("processed")
    office.wait_for(session, "idle")
    assert office.doorbells() == [rung]
    assert office.bob.unread() == ["kept for the end"]


@pytest.mark.guarantee("G-CLAUDE-CODE-WAKES")
@pytest.mark.long
def test_clear_is_followed(office: Office) -> None:
    session = office.open()
    session.prompt("remember the blue door")
    before = office.wait_for(session, "idle")
    session.terminal.submit("/clear")
    eventually(lambda: (office.seat(session) or before)["native_id"] != before["native_id"], "no new id was told")
    office.read_when_rung()
    office.send("to the new one")
    rung = office.model.wait(DOORBELL)
    office.wait_for_step("processed")
    assert rung.session == office.wait_for(session, "idle")["native_id"] != before["native_id"]
    assert "blue door" not in rung.text
    assert office.fetched("to the new one") == 1


@pytest.mark.guarantee("G-CLAUDE-CODE-WAKES")
@pytest.mark.long
@pytest.mark.parametrize("bell", ["inbox", "rewake", "watch"])
def test_resume_inside_a_session_is_followed(office: Office, bell: str) -> None:
    office.world.extra["WAKELINE_CLAUDE_BELL"] = bell
    earlier = office.open()
    office.talk(earlier, "remember the blue door")
    seat = office.wait_for(earlier, "idle")
    earlier.stop()
    eventually(lambda: office.seat(earlier) is None, "its end was not noticed")
    session = office.open()
    office.talk(session, "remember the red door")
    session.terminal.submit(f"/resume {seat['native_id']}")
    eventually(lambda: (office.seat(session) or {}).get("native_id") == seat["native_id"], "its old id was not told")
    office.read_when_rung()
    office.send("to the old one", to=f"{office.bob.handle}/{seat['session_id']}")
    rung = office.model.wait(DOORBELL)
    assert office.wait_for_step("processed")["session_id"] == seat["session_id"]
    assert rung.session == seat["native_id"]
    assert "blue door" in rung.text
    assert "red door" not in rung.text
    assert office.doorbells() == [rung]
    assert office.fetched("to the old one") == 1


@pytest.mark.guarantee("G-CLAUDE-CODE-WAKES")
@pytest.mark.long
def test_mail_that_comes_while_a_session_is_compacted_rings_after_it(office: Office) -> None:
    session, gate = office.open(), threading.Event()
    office.talk(session, "remember the blue door")
    before = office.wait_for(session, "idle")
    office.model.script(SUMMARY, Say("<summary>There was a door.</summary>", gate))
    session.terminal.submit("/compact")
    office.model.wait(SUMMARY)
    office.wait_for(session, "active")
    office.read_when_rung()
    office.send("when you are done")
    office.wait_for_step("triggered")
    assert office.doorbells() == []
    gate.set()
    rung = office.model.wait(DOORBELL)
    office.wait_for_step("processed")
    assert "There was a door." in rung.text
    assert rung.session == office.wait_for(session, "idle")["native_id"] == before["native_id"]
    assert office.doorbells() == [rung]
    assert office.fetched("when you are done") == 1


@pytest.mark.guarantee("G-CLAUDE-CODE-WAKES")
@pytest.mark.long
def test_a_note_to_oneself_is_shown_when_a_session_begins(office: Office) -> None:
    office.bob.send(office.bob.handle, body="a note to myself")
    session = office.open()
    office.read_when_rung()
    asked = session.prompt("good morning")
    assert "from yourself" in asked.news
    assert office.model.turns()[0] == asked, "a note to oneself wakes nobody"
    eventually(lambda: office.fetched("a note to myself") == 1, "it was not read")
    assert office.doorbells() == [], "it was told of, not rung for"


@pytest.mark.guarantee("G-CLAUDE-CODE-WAKES")
@pytest.mark.long
def test_a_session_that_asks_for_no_permission_wakes_too(office: Office) -> None:
    office.world.extra["IS_SANDBOX"] = "1"
    state = office.world.config / ".claude.json"
    state.write_text(state.read_text().replace("{", '{"bypassPermissionsModeAccepted": true, ', 1))
    session = office.open("--dangerously-skip-permissions")
    office.read_when_rung()
    office.send("no questions")
    assert office.model.wait(DOORBELL).session == session.native_id
    office.wait_for_step("processed")
    assert office.fetched("no questions") == 1


@pytest.mark.guarantee("G-CLAUDE-CODE-WAKES")
@pytest.mark.long
@pytest.mark.parametrize("bell", ["rewake", "watch"])
def test_the_older_bells_wake_too(office: Office, bell: str) -> None:
    office.world.extra["WAKELINE_CLAUDE_BELL"] = bell
    session = office.open()
    office.read_when_rung()
    office.send("the old way")
    assert office.model.wait(DOORBELL).session == session.native_id
    assert {"woke", "injected"} <= set(steps(office.wait_for_step("processed")))
    assert office.fetched("the old way") == 1


@pytest.mark.long
def test_a_human_who_closed_the_inbox_is_not_gone_round(office: Office) -> None:
    settings = office.world.config / "settings.json"
    settings.write_text(settings.read_text().replace("{", '{"crossSessionInbound": "refuse", ', 1))
    session = office.open()
    office.send("knock knock")
    eventually(lambda: "refused_by_human" in [one["reason"] for one in office.deliveries()], "it was not refused")
    assert office.model.turns() == []
    office.read_when_rung()
    assert DOORBELL in session.prompt("good morning").news
    eventually(lambda: office.bob.unread() == [], "it was not read")


@pytest.mark.long
def test_a_run_without_a_human_hears_of_its_mail_in_its_own_turn(office: Office) -> None:
    office.send("for whoever runs")
    office.read_when_rung()
    office.world.run("-p", "good morning")
    asked = office.model.wait("good morning")
    assert DOORBELL in asked.news
    assert office.fetched("for whoever runs") == 1
    assert office.bob.unread() == []


@pytest.mark.guarantee("G-CLAUDE-CODE-WAKES")
@pytest.mark.long
def test_a_claude_code_without_an_inbox_wakes_by_its_hooks(tmp_path: Path) -> None:
    with office_in(tmp_path, installed=harness_tools.claude_without_inbox()) as office:
        session = office.open()
        seat = office.wait_for(session, "idle")
        assert seat["transport"] == "async-rewake"
        way = {"harness": HARNESS, "transport": seat["transport"], "version": seat["harness_version"]}
        office.server.call("POST", "/v1/proofs", {**way, "verdicts": [{"level": "D4", "result": "pass"}]})
        for number in range(3):
            office.read_when_rung()
            office.send(f"number {number}.")
            eventually(lambda: office.bob.unread() == [], "it was not read")
            office.wait_for(session, "idle")
        assert [office.fetched(f"number {number}.") for number in range(3)] == [1, 1, 1]
        assert len(office.doorbells()) == 3
        assert {one.session for one in office.model.turns()} == {session.native_id}
