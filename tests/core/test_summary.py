from __future__ import annotations

import sys
from datetime import timedelta

import pytest

from tests.core.views import NOON, view
from wakeline import wire
from wakeline.core.instant import SECOND, from_datetime
from wakeline.core.summary import MOST, is_decision, is_question, short, summarise
from wakeline.core.summary_queries import BLANKS, Voice

THREAD = wire.ThreadView(
    thread_id="t",
    type="workflow",
    status="active",
    title="Release",
    created_by="@alice",
    coordinator="@lead",
    escalation_owner=None,
    last_seq=9,
    created_at=NOON,
    updated_at=NOON,
    closed_at=None,
)


def member(handle: str, last_read_seq: int = 0) -> wire.MemberView:
    return wire.MemberView(handle=handle, joined_at=NOON, joined_seq=1, last_read_seq=last_read_seq)


@pytest.mark.parametrize(
    ("message", "expected", "why"),
    [
        (view(1, "Shall we?"), True, "it ends with a question mark"),
        (view(1, "Shall we? \n"), True, "blanks at the end do not count"),
        (view(1, "Shall we? I think so."), False, "it goes on after the question"),
        (view(1, ""), False, "nothing asks nothing"),
        (view(1, "Shall we?", kind="event"), False, "only people ask"),
        (view(1, "Shall we?", state="retracted"), False, "it was taken back"),
        (view(1, "Shall we?", state="expired"), False, "it is too late to answer"),
        (view(1, "Shall we?", state="superseded"), False, "another message asks instead"),
    ],
)
def test_what_counts_as_a_question(message: wire.MessageView, *, expected: bool, why: str) -> None:
    assert is_question(message) is expected, why


@pytest.mark.parametrize(
    ("message", "expected", "why"),
    [
        (view(1, "Decision: ship it"), True, "it says so"),
        (view(1, "  DECIDED - ship it"), True, "in any spelling"),
        (view(1, "agreed: ship it"), True, "so does this"),
        (view(1, "Ship it", tags=["decision"]), True, "its tag says so"),
        (view(1, "The decision: none yet"), False, "only at the start"),
        (view(1, "decisions: a, b"), False, "another word"),
        (view(1, "x", kind="system", metadata={"event": "status_changed"}), True, "a change of status is one"),
        (view(1, "x", kind="system", metadata={"event": "members_added"}), False, "a new member is not"),
        (view(1, "Decision: ship it", kind="system"), False, "the system decides only states"),
        (view(1, "Decision: ship it", state="retracted"), False, "it was taken back"),
    ],
)
def test_what_counts_as_a_decision(message: wire.MessageView, *, expected: bool, why: str) -> None:
    assert is_decision(message) is expected, why


def test_sql_strips_what_python_strips() -> None:
    assert set(filter(str.isspace, map(chr, range(sys.maxunicode + 1)))) == set(BLANKS)


def test_a_summary_names_everybody_who_spoke_or_listens_busiest_first() -> None:
    noon = from_datetime(NOON)
    voices = [
        Voice("@bob", 2, 1, noon, noon + 5 * SECOND),
        Voice("@alice", 1, 2, noon + SECOND, noon + SECOND),
        Voice("@gone", 1, 4, noon + 9 * SECOND, noon + 9 * SECOND),
    ]
    summary = summarise(THREAD, [member("@alice", 2), member("@bob", 3), member("@quiet")], voices, [], [])
    assert [(one.handle, one.messages, one.last_read_seq) for one in summary.participants] == [
        ("@bob", 2, 3),
        ("@alice", 1, 2),
        ("@gone", 1, 0),
        ("@quiet", 0, 0),
    ]
    assert (summary.messages, summary.summarised_from_seq) == (9, 1)
    assert (summary.first_at, summary.last_at) == (NOON, NOON + timedelta(seconds=9))


def test_a_summary_shows_the_latest_and_not_all_of_it() -> None:
    decisive = [view(n, "Decision: a " + "long " * 100) for n in range(1, 31)] + [view(31, "Decisions, decisions")]
    unanswered = [view(n, "So?") for n in range(31, 61)]
    summary = summarise(THREAD, [], [], unanswered, decisive)
    assert [one.seq for one in summary.decisions] == list(range(21, 31))
    assert [one.seq for one in summary.open_questions] == list(range(51, 61))
    assert len(summary.decisions) == len(summary.open_questions) == MOST
    assert all(len(one.text) <= 200 for one in summary.decisions)
    assert summary.decisions[-1].text in summary.text


def test_the_summary_of_nothing_says_so() -> None:
    summary = summarise(THREAD, [], [], [], [])
    assert (summary.first_at, summary.last_at, summary.summarised_from_seq) == (None, None, 0)
    assert (summary.participants, summary.open_questions, summary.decisions) == ([], [], [])


def test_a_short_text_is_one_line() -> None:
    assert short(" a\n\nb\t c ") == "a b c"
    assert short("x" * 200) == "x" * 200
    assert short("x" * 201) == "x" * 199 + "…"
