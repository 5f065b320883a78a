from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, get_args

import msgspec

from tests import harness_tools
from wakeline.harnesses.claude_code import plugin
from wakeline.harnesses.claude_code.companion import TOOL, Event
from wakeline.version import VERSION


def test_every_file_that_is_shipped_is_written(tmp_path: Path) -> None:
    plugin.write(tmp_path)
    shipped = {str(path.relative_to(plugin.FOLDER)) for path in plugin.FOLDER.rglob("*") if path.is_file()}
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == shipped
    assert json.loads((tmp_path / ".claude-plugin/plugin.json").read_text())["version"] == VERSION


def test_the_command_and_the_environment_of_an_installation_are_written_into_it() -> None:
    files = plugin.files(("/opt/my tools/python", "-m", "wakeline"), {"WAKELINE_DATA": "/data"})
    [server] = json.loads(files[".mcp.json"])["mcpServers"].values()
    assert (server["command"], server["args"]) == ("/opt/my tools/python", ["-m", "wakeline", "seat", "claude-code"])
    assert server["env"] == {"WAKELINE_DATA": "/data"}
    assert b"'/opt/my tools/python' -m wakeline seat hook" in files["hooks/rewake"]


def test_every_hook_tells_the_companion_what_it_understands() -> None:
    hooks: dict[str, Any] = json.loads((plugin.FOLDER / "hooks/hooks.json").read_text())["hooks"]
    calls = [hook for rows in hooks.values() for row in rows for hook in row["hooks"] if hook["type"] == "mcp_tool"]
    assert {call["server"] for call in calls} == {plugin.SERVER}
    assert {call["tool"] for call in calls} == {TOOL}
    told = {msgspec.convert(call["input"], Event).event for call in calls}
    assert told == set(get_args(Event.__annotations__["event"]) or told)
    fields = set(Event.__struct_fields__)
    assert all(call["input"].keys() <= fields for call in calls)


def test_claude_code_finds_nothing_wrong_with_the_plugin(tmp_path: Path) -> None:
    plugin.write(tmp_path / "plugin")
    done = subprocess.run(
        [*harness_tools.claude(), "plugin", "validate", str(tmp_path / "plugin")],
        env=harness_tools.world(tmp_path / "home"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
