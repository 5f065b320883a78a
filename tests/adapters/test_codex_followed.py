from __future__ import annotations

from wakeline.adapters.codex.followed import CERTAIN_SECONDS, Followed
from wakeline.adapters.codex.messages import Item, Status, Turn
from wakeline.core.observation import Injected, Noticed, Observation, Processed
from wakeline.core.session import Presence

MARK = "wl-1"


def a_turn(status: str, *marks: str) -> Turn:
    return Turn("t", status, tuple(Item("userMessage", mark) for mark in marks))


def look(followed: Followed, *turns: Turn, now: float = 0.0) -> list[Observation]:
    seen = followed.news(turns, lambda _: True, now)
    followed.time(turns, now)
    return seen


def next_look(followed: Followed) -> float | None:
    return followed.look_at


def test_a_mark_is_told_once_when_it_is_seen_and_once_when_its_turn_ends() -> None:
    followed = Followed("a", "s", Status("active"))
    running, done = a_turn("inProgress", MARK), a_turn("completed", MARK)
    assert look(followed, running) == [
        Injected("s", (MARK,), "t", woke=True),
        Noticed("s", Presence.ACTIVE, "t", "app-server"),
    ]
    assert look(followed, running) == []
    followed.change(Status("idle"))
    assert look(followed, done) == [
        Processed("s", (MARK,), "t", "completed"),
        Noticed("s", Presence.IDLE, None, "app-server"),
    ]
    assert look(followed, done) == []
    followed.confirm(Status("idle"))
    assert look(followed, done) == [Noticed("s", Presence.IDLE, None, "app-server")]


def test_the_end_of_a_turn_tells_what_the_model_said_last() -> None:
    said = [Item("agentMessage", text="First."), Item("agentMessage", text="The soup is ready."), Item("plan", text={})]
    turn = Turn("t", "completed", (Item("userMessage", MARK), *said))
    [_, processed, _] = look(Followed("a", "s", Status("idle")), turn)
    assert processed == Processed("s", (MARK,), "t", "completed", "The soup is ready.")


def test_a_turn_is_interrupted_only_if_that_stays_so() -> None:
    followed = Followed("a", "s", Status("idle"))
    broken, failed = a_turn("interrupted", MARK), a_turn("failed", MARK)
    assert not any(isinstance(seen, Processed) for seen in look(followed, broken))
    assert next_look(followed) is not None
    assert look(followed, failed, now=0.1) == [Processed("s", (MARK,), "t", "failed")]
    assert next_look(followed) is None
    again = Followed("a", "s", Status("idle"))
    look(again, broken)
    assert look(again, broken, now=CERTAIN_SECONDS) == [Processed("s", (MARK,), "t", "interrupted")]


def test_a_thread_that_is_active_without_a_prompt_is_looked_at_again_for_a_while() -> None:
    followed = Followed("a", "s", Status("active"))
    now, looks = 0.0, 0
    look(followed)
    while (due := next_look(followed)) is not None:
        now, looks = due, looks + 1
        look(followed, now=now)
    assert looks > 3
    followed.change(Status("active"))
    look(followed, now=now)
    assert next_look(followed) is not None
    look(followed, a_turn("inProgress", MARK), now=now)
    assert next_look(followed) is None
