"""What a ring puts before a model: our sentences, a peer's words only as quoted data."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeline.core.doorbell import Head, ring
from wakeline.core.wake_text import BODY_LENGTH, MOST_IDS, UNTRUSTED, compose, enclose

MARK = "wl-01JD3Z8Q0W4T6N9X2C5V7B1M3K"
HEADS = [Head("@ann", "Deploy", f"0{number}" * 13) for number in range(7)]


def event(kind: str, **payload: object) -> str:
    return json.dumps({"eventType": kind, "payload": payload})


MAIL = event("wake/sent_to_me", subject="x")


def test_a_ring_says_how_much_from_whom_about_what_which_and_how_to_fetch_it() -> None:
    text = compose(ring(7, HEADS, "@bob"), HEADS, (MARK,), MAIL)
    assert text.startswith("Wakeline: you have 7 unread messages from @ann. Subjects, quoted")
    assert all(head.message_id in text for head in HEADS[:MOST_IDS])
    assert not any(head.message_id in text for head in HEADS[MOST_IDS:])
    assert "read_messages" in text
    assert text.endswith(f"[{MARK}]")
    assert "\n" not in text


def test_what_is_no_mail_is_told_in_words() -> None:
    body = event("wake/task_state_changed", taskId="7", previousState="Working", newState="Completed")
    text = compose(None, [], (MARK,), body)
    assert text == f"Wakeline: 1 task transition (latest: Working → Completed on task 7). [{MARK}]"


def test_a_ring_that_is_overtaken_by_reading_still_holds_its_mark() -> None:
    text = compose(None, [], (MARK,), MAIL)
    assert text.endswith(f"[{MARK}]")
    assert "read meanwhile" in text


def test_nothing_is_said_where_there_is_nothing_to_say() -> None:
    assert compose(None, [], ()) == ""


@pytest.mark.guarantee("G-BRIDGE-DATA")
@given(st.text(max_size=300), st.text(max_size=300))
def test_enclosed_bodies_cannot_leave_their_lines(subject: str, body: str) -> None:
    first, begin, *lines, end = enclose([("M", "@ann", subject, body)], MARK).split("\n")
    assert (first, len(lines)) == (UNTRUSTED, 1)
    assert begin == f"--- untrusted data {MARK} begins ---"
    assert end == f"--- untrusted data {MARK} ends ---"
    said = json.loads(lines[0])
    assert said["body"] == body.replace(MARK, "")[:BODY_LENGTH]


@pytest.mark.guarantee("G-BRIDGE-DATA")
def test_an_enclosed_body_is_bounded() -> None:
    assert len(enclose([("M", "@ann", None, "x" * 100_000)], MARK)) < BODY_LENGTH + 1_000


@pytest.mark.guarantee("G-BRIDGE-DATA")
@given(st.text(max_size=300))
def test_a_subject_stays_a_quotation_on_its_line(subject: str) -> None:
    heads = [Head("@ann", subject, "0" * 26)]
    text = compose(ring(1, heads, "@bob"), heads, (MARK,), MAIL)
    assert len(text.splitlines()) == 1
    assert text.count('"') in (0, 2)
    assert text.count("[") == 1
