from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeline.faces.cli import text
from wakeline.faces.cli.arguments import find_command, find_output

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.guarantee("G-TERMINAL")
@given(st.text())
def test_safe_text_holds_nothing_that_a_terminal_obeys(value: str) -> None:
    for sign in text.safe(value):
        assert sign == "\n" or unicodedata.category(sign) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(sign) not in ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI")


@given(st.text())
def test_one_line_is_one_line(value: str) -> None:
    assert "\n" not in text.one_line(value)


def test_ordinary_text_of_any_language_stays_as_it_is() -> None:
    for value in ("naïve café", "日本語のテキスト", "👩‍💻 ships it", "10\u00a0km", "שלום"):
        assert text.safe(value) == value


@given(st.text(alphabet="ab日本é👍"), st.integers(1, 30))
def test_clipped_text_fits(value: str, room: int) -> None:
    clipped = text.clip(value, room)
    assert text.width(clipped) <= room
    assert clipped == value or clipped.endswith("…")


@given(st.lists(st.tuples(st.text(max_size=20), st.text()), max_size=5), st.integers(60, 120))
def test_a_table_is_never_wider_than_the_terminal(rows: list[tuple[str, str]], columns: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "terminal_width", lambda: columns)
        lines = text.table(("NAME", "TEXT"), rows).split("\n")
    assert len(lines) == len(rows) + 1
    first = max((text.width(text.one_line(name)) for name, _ in rows), default=0)
    assert all(text.width(line) <= max(columns, first + 10) for line in lines)


def test_a_column_that_nobody_fills_is_left_out() -> None:
    assert text.table(("A", "B", "C"), [("x", None, "y"), ("z", "", "")]).split("\n") == ["A  C", "x  y", "z"]
    assert text.table(("A", "B"), []) == "A  B"


def test_a_table_in_a_pipe_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "terminal_width", lambda: None)
    assert text.table(("A", "B"), [("x", "y" * 500), ("日本", None)]).split("\n") == [
        "A     B",
        "x     " + "y" * 500,
        "日本",
    ]


@pytest.mark.parametrize(
    ("distance", "said"),
    [
        (timedelta(seconds=0.4), "now"),
        (timedelta(seconds=5), "5 s ago"),
        (timedelta(seconds=119), "1 min ago"),
        (timedelta(hours=5), "5 h ago"),
        (timedelta(days=3), "3 d ago"),
        (timedelta(days=31), "2026-03-31"),
        (-timedelta(minutes=10), "in 10 min"),
        (-timedelta(days=90), "2026-07-30"),
    ],
)
def test_times_read_as_people_say_them(monkeypatch: pytest.MonkeyPatch, distance: timedelta, said: str) -> None:
    monkeypatch.setattr(text, "now", NOW.timestamp)
    assert text.ago((NOW - distance).isoformat().replace("+00:00", "Z")) == said


@pytest.mark.parametrize(
    ("words", "name", "rest"),
    [
        ("send @bob hi", "send", "@bob hi"),
        ("-o json send @bob hi", "send", "-o json @bob hi"),
        ("--data agent agent -o json add @bob", "agent add", "--data agent -o json @bob"),
        ("--output=json agent add @bob", "agent add", "--output=json @bob"),
        ("agent", "agent", ""),
        ("--help", "", "--help"),
        ("", "", ""),
    ],
)
def test_the_command_is_found_among_the_options(words: str, name: str, rest: str) -> None:
    assert find_command(words.split()) == (name, rest.split())


@pytest.mark.parametrize(
    ("words", "form"),
    [
        ("send -o json", "json"),
        ("--output toon x", "toon"),
        ("-ojsonl", "jsonl"),
        ("--output=json", "json"),
        ("send json", "human"),
        ("-o nonsense", "human"),
    ],
)
def test_the_format_is_known_even_when_the_rest_is_wrong(words: str, form: str) -> None:
    assert find_output(words.split()) == form
