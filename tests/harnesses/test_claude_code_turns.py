from __future__ import annotations

from collections.abc import Callable

import pytest

from wakeline.core.instant import SECOND
from wakeline.harnesses.claude_code.registry import Entry
from wakeline.harnesses.claude_code.turns import Turns, marks_in
from wakeline.wire.seat import InjectedSaid, PresenceSaid, Renamed, TurnEnded, TurnStarted

MARK = "wl-01M7H753XXF7N80WC2EAZ0F2GJ"
SECOND_MARK = "wl-01M7H753XXF7N80WC2EAZ0F2GK"
NOW = 1_000 * SECOND


def entry(status: str, at: int, session_id: str = "one") -> Entry:
    return Entry(pid=1, session_id=session_id, status=status, status_updated_at=at // 1_000)


def fresh() -> Turns:
    return Turns("one", NOW)


def in_turn(text: str = "hello") -> Turns:
    turns = fresh()
    turns.submitted("turn", text, NOW + 1 * SECOND)
    return turns


def asking() -> Turns:
    turns = in_turn()
    turns.asked(NOW + 2 * SECOND)
    return turns


def stopped() -> Turns:
    turns = in_turn()
    turns.seen(entry("idle", NOW + 2 * SECOND), NOW + 2 * SECOND)
    return turns


AFTER, LATER = NOW + 3 * SECOND, NOW + 60 * SECOND

HOOKS: list[tuple[str, Callable[[], Turns], Callable[[Turns], object], str]] = [
    ("a session begins idle", fresh, lambda _: None, "idle"),
    ("a prompt starts a turn", fresh, lambda turns: turns.submitted("turn", "hello", AFTER), "active"),
    ("the hook of its end ends it", in_turn, lambda turns: turns.ended("turn", "completed", "hi", AFTER), "idle"),
    ("a failure ends it too", in_turn, lambda turns: turns.ended("turn", "failed", "", AFTER), "idle"),
    ("a permission is asked for", in_turn, lambda turns: turns.asked(AFTER), "waitingOnApproval"),
    ("a tool that ran was allowed", asking, lambda turns: turns.answered(AFTER), "active"),
    ("compacting does not end a turn", in_turn, lambda turns: turns.began("one", "compact", AFTER), "active"),
    ("/clear does", in_turn, lambda turns: turns.began("two", "clear", AFTER), "idle"),
    ("the human took the floor", stopped, lambda _: None, "userTyping"),
    ("and keeps it when we ring", stopped, lambda turns: turns.ended("x", "completed", "", AFTER), "userTyping"),
    ("until they clear the session", stopped, lambda turns: turns.began("two", "clear", AFTER), "idle"),
]


@pytest.mark.parametrize(("why", "given", "act", "presence"), HOOKS, ids=[row[0] for row in HOOKS])
def test_presence_after_a_hook(
    why: str, given: Callable[[], Turns], act: Callable[[Turns], object], presence: str
) -> None:
    turns = given()
    act(turns)
    assert turns.presence == presence


ENTRIES: list[tuple[str, Callable[[], Turns], str, int, int, str]] = [
    ("an entry from before the prompt says nothing of it", in_turn, "idle", NOW, AFTER, "active"),
    ("an entry from after it does: Esc", in_turn, "idle", AFTER, AFTER, "userTyping"),
    ("an old entry counts when no hook came for long", in_turn, "idle", NOW, LATER, "userTyping"),
    ("busy is what we knew", in_turn, "busy", AFTER, AFTER, "active"),
    ("busy without a prompt is a turn of its own", fresh, "busy", AFTER, LATER, "active"),
    ("but its hook may be on the way", fresh, "busy", AFTER, AFTER, "idle"),
    ("a dialog that no hook told of", in_turn, "waiting", AFTER, AFTER, "waitingOnApproval"),
    ("a dialog is answered before its tool has run", asking, "busy", AFTER, AFTER, "active"),
    ("a dialog that is still open", asking, "waiting", AFTER, AFTER, "waitingOnApproval"),
    ("a dialog that was left by Esc, or answered by no", asking, "idle", AFTER, AFTER, "userTyping"),
    ("a command in the background can wait", fresh, "shell", AFTER, AFTER, "idle"),
    ("idle is what we knew", fresh, "idle", AFTER, AFTER, "idle"),
    ("a word that we do not know changes nothing", in_turn, "dreaming", AFTER, AFTER, "active"),
]


@pytest.mark.parametrize(("why", "given", "status", "at", "now", "presence"), ENTRIES, ids=[row[0] for row in ENTRIES])
def test_presence_after_a_look_at_the_registry(
    why: str, given: Callable[[], Turns], status: str, at: int, now: int, presence: str
) -> None:
    turns = given()
    turns.seen(entry(status, at), now)
    assert turns.presence == presence


SPEECH = [
    ("hello again", "active", "idle"),
    (f"Wakeline: you have mail {MARK}", "active", "userTyping"),
    ("<task-notification>\n<summary>done</summary>", "active", "userTyping"),
    ("<cross-session-message from='uds:x'>hi</cross-session-message>", "active", "userTyping"),
]


@pytest.mark.parametrize(("text", "during", "after"), SPEECH, ids=["human", "doorbell", "notification", "peer"])
def test_only_the_humans_own_words_end_what_esc_began(text: str, during: str, after: str) -> None:
    turns = stopped()
    turns.submitted("next", text, AFTER)
    assert str(turns.presence) == during
    turns.ended("next", "completed", "", AFTER)
    assert str(turns.presence) == after


def test_a_command_of_the_harness_that_ends_is_not_cut_off() -> None:
    turns = fresh()
    turns.seen(entry("busy", AFTER), LATER)
    assert str(turns.presence) == "active"
    lines = turns.seen(entry("idle", LATER), LATER)
    assert turns.presence == "idle"
    assert not any(isinstance(line, TurnEnded) for line in lines)


def test_of_a_prompt_only_our_marks_are_told() -> None:
    lines = fresh().submitted("turn", f"my secret {MARK} {'x' * 10_000} two: {SECOND_MARK} and {MARK}", AFTER)
    assert lines == [TurnStarted(turn_id="turn", text=f"{MARK} {SECOND_MARK}")]


def test_a_turn_that_was_cut_off_is_told_once() -> None:
    turns = in_turn()
    first = turns.seen(entry("idle", AFTER), AFTER)
    assert TurnEnded(turn_id="turn", status="interrupted") in first
    assert turns.seen(entry("idle", AFTER), AFTER + SECOND) == []


def test_another_id_is_followed_from_either_source_and_told_once() -> None:
    turns = fresh()
    assert Renamed(native_id="two") in turns.began("two", "clear", AFTER)
    assert turns.seen(entry("idle", NOW), AFTER) == [], "this entry was written before the hook"
    later = entry("idle", AFTER + SECOND, "three")
    assert turns.seen(later, AFTER + SECOND) == [], "its hook may be on the way"
    assert turns.seen(later, AFTER + 4 * SECOND) == [Renamed(native_id="three")]
    assert turns.seen(later, AFTER + 5 * SECOND) == []
    assert turns.native_id == "three"


def test_what_is_only_like_a_mark_is_none() -> None:
    assert marks_in("wl-short owl-01M7H753XXF7N80WC2EAZ0F2GJ wl-01M7H753XXF7N80WC2EAZ0F2GJX") == ()


def test_a_bridge_that_came_back_is_told_what_the_model_has_seen() -> None:
    turns = in_turn(f"Wakeline: {MARK}")
    turns.ended("turn", "completed", "", AFTER)
    turns.submitted("next", "hello", AFTER)
    turns.show((SECOND_MARK,))
    assert turns.retold() == [
        InjectedSaid(marks=[MARK], turn_id="turn"),
        TurnEnded(turn_id="turn", status="completed"),
        InjectedSaid(marks=[SECOND_MARK], turn_id="next"),
        PresenceSaid(presence="active", turn_id="next"),
    ]
