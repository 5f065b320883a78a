"""opencode: our tools as an MCP server, and a plugin that runs inside its process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wakeline.connect.change import Edit, Element, Member, Whole
from wakeline.connect.wiring.wire import NAME, Launch, Place, Wire, beside, shipped

PROGRAM = "opencode"
_NAMES = ("opencode.jsonc", "opencode.json", "config.json")  # in the order of their weight; the last is an old name


class OpenCode:
    program = PROGRAM

    def root(self, place: Place) -> Path:
        """A project's file stands in the project itself."""
        return place.project or place.directory("XDG_CONFIG_HOME", ".config") / "opencode"

    def edits(self, place: Place, wire: Wire) -> list[Edit]:
        root = self.root(place)
        inner = root / ".opencode" if place.project else root
        places = [folder / name for folder in (root, inner) for name in _NAMES]
        config = next((path for path in places if path.exists()), root / "opencode.json")
        folder = inner / NAME
        return [
            *plugin(folder, wire),
            Member(str(config), ("mcp", NAME), server(wire)),
            Element(str(config), ("plugin",), _entry(folder).as_uri()),
        ]

    def notes(self, place: Place) -> tuple[str, ...]:
        return ("opencode reads it when it starts.",)

    def launch(self, place: Place, wire: Wire, own: Path) -> Launch:
        """A plugin that is there already goes by the environment too; a second one would take the same seats."""
        overlay: dict[str, Any] = {"mcp": {NAME: server(wire)}}
        if not _entry(self.root(place) / NAME).exists():
            overlay["plugin"] = [_entry(own / NAME).as_uri()]
        environ = {**wire.environ, "OPENCODE_CONFIG_CONTENT": json.dumps(overlay)}
        return Launch(PROGRAM, (), environ, plugin(own / NAME, wire))


def server(wire: Wire) -> dict[str, Any]:
    return {"type": "local", "command": [*wire.command, "mcp"], "enabled": True, "environment": wire.environ}


def _entry(folder: Path) -> Path:
    return folder / "opencode" / "wakeline.js"


def plugin(folder: Path, wire: Wire) -> list[Edit]:
    contents = {f"{part}/{name}": text for part in ("companion", "opencode") for name, text in shipped(part).items()}
    contents["opencode/wakeline.json"] = beside(wire)
    contents["package.json"] = f"{json.dumps({'name': NAME, 'private': True, 'type': 'module'}, indent=2)}\n"
    return [Whole(str(folder / name), text) for name, text in contents.items()]
