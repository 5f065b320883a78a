from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connect.odd_files import toml_files
from wakeline.connect import toml_edit
from wakeline.connect.jsonc import NotEditable

KEYS = ("mcp_servers", "wakeline")
TABLE = {"command": "/usr/bin/wakeline", "args": ["mcp", 'a "b" \\'], "env": {"A": "ü\x7f", "B C": ""}}


@given(toml_files())
def test_our_table_is_added_behind_a_text_that_stays_as_it_is(text: str) -> None:
    there = toml_edit.put(text, KEYS, TABLE)
    assert there.startswith(text)
    assert toml_edit.parse(there)["mcp_servers"]["wakeline"] == TABLE
    assert toml_edit.put(there, KEYS, TABLE) == there


@given(toml_files(), st.sampled_from(["", "x = 1\n", "[x]\n", "# of x\n[[x.y]]\nz = 1\n"]))
def test_our_table_is_taken_out_also_from_the_middle(text: str, later: str) -> None:
    """What somebody writes directly below our last line belongs to our table, and goes with it."""
    gone = toml_edit.remove(toml_edit.put(text, KEYS, TABLE) + later, KEYS)
    assert toml_edit.remove(gone, KEYS) == gone
    left, before = toml_edit.parse(gone), toml_edit.parse(text)
    left.pop("x", None)
    assert left == before


def test_another_value_replaces_the_old_one() -> None:
    text = toml_edit.put("a = 1\n", KEYS, TABLE)
    assert toml_edit.parse(toml_edit.put(text, KEYS, {"command": "x"})) == {
        "a": 1,
        "mcp_servers": {"wakeline": {"command": "x"}},
    }


def test_what_a_harness_adds_below_our_table_goes_with_it() -> None:
    text = (
        toml_edit.put("a = 1\n", KEYS, TABLE) + '\n[mcp_servers.wakeline.tools.ask]\nmode = "x"\n\n# next\n[b]\nc = 2\n'
    )
    assert toml_edit.remove(text, KEYS) == "a = 1\n\n# next\n[b]\nc = 2\n"


REFUSED = ["mcp_servers = { other = { command = 'x' } }\n", "mcp_servers = 1", "a = ", "[a]\n[a]\n"]


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_room_for_a_table_is_refused(text: str) -> None:
    with pytest.raises(NotEditable):
        toml_edit.put(text, KEYS, TABLE)
