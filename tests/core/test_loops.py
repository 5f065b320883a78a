from __future__ import annotations

import msgspec
import pytest

from wakeline.core import loop
from wakeline.core.alarm import LOOP_CHAIN, LOOP_REPEATS, LOOP_TURNS
from wakeline.core.guardrail import Guardrails
from wakeline.core.principal import Kind
from wakeline.core.thread import Status, Thread, ThreadType

THREAD = Thread("t", 1, ThreadType.CONVERSATION, Status.ACTIVE, "t", None, "@a", None, None, 0, 0, 0)
OFF = Guardrails(loop_turn_limit=0, loop_repeat_limit=0, loop_chain_limit=0)

# (sender, text)… → turns, repeats.  "-" is progress.
SAID = {
    "nothing was said": ((), 0, 0),
    "one alone takes no turns": ((("@a", "1"), ("@a", "2"), ("@a", "3")), 0, 1),
    "an answer is a turn": ((("@a", "1"), ("@b", "2")), 1, 1),
    "and so is the answer to it": ((("@a", "1"), ("@b", "2"), ("@a", "3")), 2, 1),
    "a third speaker turns too": ((("@a", "1"), ("@b", "2"), ("@c", "3")), 2, 1),
    "the same text in a row is counted, whoever says it": ((("@a", "ok"), ("@b", "ok"), ("@b", "ok")), 1, 3),
    "another text in between begins again": ((("@a", "ok"), ("@b", "no"), ("@a", "ok")), 2, 1),
    "spaces and capitals make no other text": ((("@a", "Thank  you!\n"), ("@b", "thank you!")), 1, 2),
    "nor do capitals of other alphabets": ((("@a", "Σας Ευχαριστώ"), ("@b", "σας ευχαριστώ")), 1, 2),
    "progress sets everything back": ((("@a", "ok"), ("@b", "ok"), ("-", "")), 0, 0),
    "after progress the first to speak takes no turn": ((("@a", "ok"), ("-", ""), ("@b", "ok")), 0, 1),
}


@pytest.mark.parametrize(("entries", "turns", "repeats"), SAID.values(), ids=SAID.keys())
def test_turns_and_repeats_are_counted(entries: tuple[tuple[str, str], ...], turns: int, repeats: int) -> None:
    thread = THREAD
    for sender, text in entries:
        thread = loop.moved_on(thread) if sender == "-" else loop.said(thread, sender, text)
    assert (thread.turns, thread.repeats) == (turns, repeats)


PROGRESS = {
    "what a human says": (Kind.HUMAN, "chat", True),
    "what a human reports": (Kind.HUMAN, "event", True),
    "an event of the system": (Kind.SYSTEM, "event", True),
    "the system's word about the thread itself": (Kind.SYSTEM, "system", False),
    "what an agent says": (Kind.AGENT, "chat", False),
    "an agent's own event proves nothing": (Kind.AGENT, "event", False),
}


@pytest.mark.parametrize(("sender", "kind", "is_progress"), PROGRESS.values(), ids=PROGRESS.keys())
def test_progress_is_what_shows_that_somebody_looked(sender: str, kind: str, is_progress: bool) -> None:  # noqa: FBT001 - a row of the table
    assert loop.is_progress(sender, kind) is is_progress


# turns, repeats, hops, rails → which guard
VERDICTS = {
    "below every limit": (19, 2, 7, Guardrails(), None),
    "at the limit of turns": (20, 2, 7, Guardrails(), LOOP_TURNS),
    "at the limit of repeats": (0, 3, 0, Guardrails(), LOOP_REPEATS),
    "at the limit of hops": (0, 0, 8, Guardrails(), LOOP_CHAIN),
    "repeats tell the most": (20, 3, 8, Guardrails(), LOOP_REPEATS),
    "turns tell more than hops": (20, 1, 8, Guardrails(), LOOP_TURNS),
    "0 turns a guard off": (1000, 1000, 1000, OFF, None),
    "each is set on its own": (2, 0, 0, Guardrails(loop_turn_limit=2), LOOP_TURNS),
}


@pytest.mark.parametrize(("turns", "repeats", "hops", "rails", "code"), VERDICTS.values(), ids=VERDICTS.keys())
def test_a_guard_fires_at_its_limit(turns: int, repeats: int, hops: int, rails: Guardrails, code: str | None) -> None:
    thread = msgspec.structs.replace(THREAD, turns=turns, repeats=repeats)
    assert loop.verdict(thread, hops, rails) == code


def test_a_long_text_is_compared_as_it_is() -> None:
    long = "word " * loop.NORMALISED
    assert loop.digest(long) == loop.digest(long)
    assert loop.digest(long) != loop.digest(long.upper())
