"""What is concluded from a screen, line by line."""

from __future__ import annotations

import pytest

from wakeline.adapters.tmux.screen import Glance, Verdict, judge

RULE = "─" * 40
SAID = "● It asked for permission to do so."  # words that a question also has
SIGN = "❯"  # noqa: RUF001 - it is that one
TYPED = (f"{SIGN} Wakeline: you have 1 unread message. Fetch", "  them with read_messages. [wl-1]")


def seen(*lines: str, row: int, column: int) -> Verdict:
    glance = Glance(lines, column, row, "a title")
    return judge(glance, glance)


def test_a_draft_of_several_lines_is_a_draft_whatever_was_said_above_it() -> None:
    assert seen(SAID, RULE, *TYPED, RULE, "  manual mode on", row=3, column=34) is Verdict.DRAFT
    assert seen(SAID, RULE, TYPED[0], "  in two", *TYPED[1:], RULE, row=3, column=8) is Verdict.DRAFT


@pytest.mark.parametrize(
    "lines",
    [
        (SAID, "", *TYPED, RULE),  # no rule above it
        (SAID, RULE, *TYPED, "something else"),  # none below it
        (SAID, RULE, "  Wakeline: you have", *TYPED[1:], RULE),  # no prompt sign before it
        (SAID, RULE, TYPED[0], "not indented", *TYPED[1:], RULE),
    ],
)
def test_what_only_resembles_a_draft_is_a_question_if_it_sounds_like_one(lines: tuple[str, ...]) -> None:
    assert seen(*lines, row=len(lines) - 2, column=34) is Verdict.MODAL


def test_a_list_to_choose_from_is_a_question_also_between_rules() -> None:
    question = ("  Do you want to proceed?", f"{SIGN} 1. Yes", "  2. No")
    assert seen(RULE, *question, RULE, row=3, column=2) is Verdict.MODAL
    assert seen(RULE, f"{SIGN} Yes", "  No, and tell it what to do", RULE, row=2, column=2) is Verdict.MODAL


def test_an_empty_line_behind_a_prompt_sign_is_empty() -> None:
    assert seen("● Done.", RULE, f"{SIGN} ", RULE, row=2, column=2) is Verdict.EMPTY
