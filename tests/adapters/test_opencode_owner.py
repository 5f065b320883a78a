from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wakeline.adapters.opencode.owner import has_companion, token_of


def entry(**fields: Any) -> dict[str, Any]:
    return {"mcp": {"wakeline": fields}}


TOKENS = [
    ("no entry at all", {}, None),
    ("an entry of somebody else", {"mcp": {"other": {"environment": {"WAKELINE_TOKEN": "t"}}}}, None),
    ("the token itself", entry(environment={"WAKELINE_TOKEN": "t"}), "t"),
    ("a file that is not there", entry(environment={"WAKELINE_TOKEN_FILE": "/nowhere"}), None),
    ("over HTTP", entry(headers={"authorization": "Bearer t"}), "t"),
    ("over HTTP with another scheme", entry(headers={"authorization": "Basic t"}), None),
    ("switched off by a word", {"mcp": {"wakeline": False}}, None),
]


@pytest.mark.parametrize(("why", "config", "expected"), TOKENS, ids=[row[0] for row in TOKENS])
def test_the_mcp_entry_names_the_agent(why: str, config: dict[str, Any], expected: str | None) -> None:
    assert token_of(config) == expected


def test_a_token_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t\n")
    assert token_of(entry(environment={"WAKELINE_TOKEN_FILE": str(tmp_path / "token")})) == "t"


PLUGINS = [
    ("none", {}, False),
    ("others", {"plugin": ["opencode-other", ["another", {"option": 1}]]}, False),
    ("ours", {"plugin": ["file:///x/wakeline/opencode/wakeline.js"]}, True),
    ("ours with options", {"plugin": [["file:///x/wakeline/opencode/wakeline.js", {"seats": "s"}]]}, True),
]


@pytest.mark.parametrize(("why", "config", "expected"), PLUGINS, ids=[row[0] for row in PLUGINS])
def test_where_the_plugin_is_it_looks_after_the_sessions(why: str, config: dict[str, Any], expected: bool) -> None:  # noqa: FBT001 - a column of the table
    assert has_companion(config) is expected
