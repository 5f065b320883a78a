"""Claude Code: a plugin in its skills directory, which it loads by itself, and a rule that our tools need no approval.

No list of plugins is edited: what lies in `skills/<name>` with a manifest is a plugin of the next session.
"""

from __future__ import annotations

import json
from pathlib import Path

from wakeline.connect.change import Edit, Element, Whole
from wakeline.connect.wiring.wire import NAME, Launch, Place, Wire, shipped

PROGRAM = "claude"
ALLOWED = f"mcp__plugin_{NAME}_{NAME}"
_SERVERS = ".mcp.json"


class ClaudeCode:
    def root(self, place: Place) -> Path:
        return place.project / ".claude" if place.project else place.directory("CLAUDE_CONFIG_DIR", ".claude")

    def edits(self, place: Place, wire: Wire) -> list[Edit]:
        root = self.root(place)
        # A project's settings.json is everybody's; the local one is this user's.
        settings = root / ("settings.local.json" if place.project else "settings.json")
        rule = [Element(str(settings), ("permissions", "allow"), ALLOWED)] if wire.allow else []
        return [*plugin(root / "skills" / NAME, wire), *rule]

    def notes(self, place: Place) -> tuple[str, ...]:
        trust = ("Claude Code loads a project's plugins once the project is trusted.",) if place.project else ()
        return ("Sessions that are open load it with /reload-plugins; new ones by themselves.", *trust)

    def launch(self, place: Place, wire: Wire, own: Path) -> Launch:
        settings = json.dumps({"permissions": {"allow": [ALLOWED]}})
        rule = ("--settings", settings) if wire.allow else ()
        return Launch(PROGRAM, ("--plugin-dir", str(own / NAME), *rule), wire.environ, plugin(own / NAME, wire))


def plugin(folder: Path, wire: Wire) -> list[Edit]:
    """The shipped plugin; its servers are started by this installation's own command and know where we are."""
    contents = shipped("claude_code/plugin")
    servers = json.loads(contents.pop(_SERVERS))
    for server in servers["mcpServers"].values():
        server["command"], server["args"] = wire.command[0], [*wire.command[1:], *server.get("args", [])]
        server["env"] = {**server.get("env", {}), **wire.environ}
    contents[_SERVERS] = f"{json.dumps(servers, indent=2, ensure_ascii=False)}\n"
    return [Whole(str(folder / name), text) for name, text in contents.items()]
