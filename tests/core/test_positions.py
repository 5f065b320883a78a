from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeline.core.log import Position, parse_position
from wakeline.errors import InvalidArgument

positions = st.builds(Position, st.from_regex(r"[a-z0-9]{1,32}", fullmatch=True), st.integers(0, 10**18 - 1))


@given(positions)
def test_a_position_reads_back_as_itself(position: Position) -> None:
    assert parse_position(str(position)) == position


def test_zero_is_the_start_of_what_is_kept() -> None:
    assert parse_position("0") == Position(None, 0)
    assert str(Position(None, 0)) == "0"


NO_POSITIONS = [
    "", "1", "00", "-1", "0-", "-0", "a-", "a-b", "a-1-2", "A-1", "a-1 ", " a-1", "a-1\n", "a--1", "a-+1", "a-1.0",
    "a-1e3", "a-٣", "ä-1", "a-" + "1" * 19, "a" * 33 + "-1", "null", "a-0x1", "a_1",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_POSITIONS)
def test_what_is_not_a_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_position(text)
    assert caught.value.code == "MALFORMED_POSITION"


@given(st.text())
def test_any_text_is_a_position_or_is_refused(text: str) -> None:
    try:
        position = parse_position(text)
    except InvalidArgument:
        return
    assert parse_position(str(position)) == position
