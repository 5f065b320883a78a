from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.connect.odd_files import json_files
from wakeline.connect import json_edit
from wakeline.connect.jsonc import BOM, NotEditable, parse

PATHS = st.sampled_from([("mcp", "wakeline"), ("wakeline",), ("permissions", "allow", "wakeline")])
VALUE = {"type": "local", "command": ["/usr/bin/wakeline", "mcp"], "enabled": True, "environment": {"A": "ü"}}


def edited(text: str, keys: tuple[str, ...]) -> str:
    try:
        return json_edit.put(text, keys, VALUE)
    except NotEditable as error:
        assume("not an object" not in str(error))  # somebody has something else at that place
        raise


def comments_of(text: str) -> list[str]:
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', text, re.DOTALL)
    return [piece for piece in pieces if piece.startswith("/")]


@given(json_files(), PATHS)
def test_a_member_is_put_in_and_all_else_says_the_same(text: str, keys: tuple[str, ...]) -> None:
    before, after = parse(text), parse(edited(text, keys))
    for key in keys[:-1]:
        before = before.setdefault(key, {})
        after = after[key]
    assert after.pop(keys[-1]) == parse(json_edit._flat(VALUE))  # noqa: SLF001 - numbers are kept as they are written
    before.pop(keys[-1], None)
    assert after == before


@given(json_files(), PATHS)
def test_no_comment_is_lost_by_putting_in_and_taking_out(text: str, keys: tuple[str, ...]) -> None:
    assume(not json_edit.has(text, keys))
    there = edited(text, keys)
    assert comments_of(there) == comments_of(text)
    assert comments_of(json_edit.remove(there, keys)) == comments_of(text)


@given(json_files(), PATHS)
def test_putting_the_same_in_again_changes_nothing(text: str, keys: tuple[str, ...]) -> None:
    once = edited(text, keys)
    assert json_edit.put(once, keys, VALUE) == once


@given(json_files())
def test_an_element_goes_into_a_list_once_and_out_again(text: str) -> None:
    keys = ("permissions", "allow")
    try:
        there = json_edit.append(text, keys, "mcp__wakeline")
    except NotEditable as error:
        assert "is not" in str(error)  # noqa: PT017 - what else is refused is a failure
        return
    assert json_edit.append(there, keys, "mcp__wakeline") == there
    gone = json_edit.discard(there, keys, "mcp__wakeline")
    assert comments_of(gone) == comments_of(text)
    assert (parse(gone).get("permissions") or {}).get("allow") in (
        [],
        (parse(text).get("permissions") or {}).get("allow"),
    )


@given(json_files())
def test_line_ends_and_the_byte_order_mark_stay(text: str) -> None:
    there = edited(text, ("wakeline",))
    assert there.startswith(BOM) == text.startswith(BOM)
    if "\r\n" in text and "\n" not in text.replace("\r\n", ""):
        assert "\n" not in there.replace("\r\n", "")


STYLES = [
    ("", '{\n  "mcp": {\n    "w": 1\n  }\n}\n'),
    ("{}", '{\n  "mcp": {\n    "w": 1\n  }\n}'),
    ('{"a":1}', '{"a":1, "mcp": {"w": 1}}'),
    ('{\n    "a": 1\n}\n', '{\n    "a": 1,\n    "mcp": {\n        "w": 1\n    }\n}\n'),
    ('{\n\t"a": 1, // last\n}\n', '{\n\t"a": 1, // last\n\t"mcp": {\n\t\t"w": 1\n\t},\n}\n'),
    ('{\n  "mcp": {\n    "x": 2\n  }\n}', '{\n  "mcp": {\n    "x": 2,\n    "w": 1\n  }\n}'),
    ('{\r\n  "a": 1\r\n}', '{\r\n  "a": 1,\r\n  "mcp": {\r\n    "w": 1\r\n  }\r\n}'),
]


@pytest.mark.parametrize(("text", "expected"), STYLES)
def test_what_is_put_in_looks_like_its_surroundings(text: str, expected: str) -> None:
    assert json_edit.put(text, ("mcp", "w"), 1) == expected


BROKEN = [
    '{"a": }',
    "{'a': 1}",
    '{"a": 1',
    '{"a": 1} {}',
    "[1]",
    '"text"',
    '{"mcp": []}',
    '{"mcp": null}',
    '{"a" 1}',
    '{"a": 1 "b": 2}',
    '{"a": "\n"}',
    '{"a": "\\q"}',
    "{" + '"a":{' * 300 + "}" * 301,
]


@pytest.mark.parametrize("text", BROKEN)
def test_what_cannot_be_read_or_has_no_room_is_refused(text: str) -> None:
    with pytest.raises(NotEditable):
        json_edit.put(text, ("mcp", "w"), 1)


def test_a_key_that_stands_twice_is_gone_after_one_removal() -> None:
    assert parse(json_edit.remove('{"w": 1, "a": 2, "w": 3}', ("w",))) == parse('{"a": 2}')
