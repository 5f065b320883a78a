"""Claude Code: a plugin in its skills directory, which it loads by itself, and a rule that our tools need no approval.

No list of plugins is edited: what lies in `skills/<name>` with a manifest is a plugin of the next session.
"""

from __future__ import annotations

import json
from pathlib import Path

from wakeline.connect.change import Edit, Element, Whole
from wakeline.connect.wiring.wire import NAME, Launch, Place, Wire
from wakeline.harnesses.claude_code import plugin

PROGRAM = "claude"
ALLOWED = plugin.TOOLS


class ClaudeCode:
    program = PROGRAM

    def root(self, place: Place) -> Path:
        return place.project / ".claude" if place.project else place.directory("CLAUDE_CONFIG_DIR", ".claude")

    def edits(self, place: Place, wire: Wire) -> list[Edit]:
        root = self.root(place)
        # A project's settings.json is everybody's; the local one is this user's.
        settings = str(root / ("settings.local.json" if place.project else "settings.json"))
        rules: list[Edit] = [Element(settings, ("permissions", "allow"), ALLOWED)]
        if place.project:  # there it would ask about the server itself, too
            rules.append(Element(settings, ("enabledMcpjsonServers",), plugin.SERVER))
        return [*folder(root / "skills" / NAME, wire), *(rules if wire.allow else ())]

    def notes(self, place: Place) -> tuple[str, ...]:
        trust = ("Claude Code loads a project's plugins once the project is trusted.",) if place.project else ()
        return ("Sessions that are open load it with /reload-plugins; new ones by themselves.", *trust)

    def launch(self, place: Place, wire: Wire, own: Path) -> Launch:
        settings = json.dumps({"permissions": {"allow": [ALLOWED]}})
        rule = ("--settings", settings) if wire.allow else ()
        return Launch(PROGRAM, ("--plugin-dir", str(own / NAME), *rule), wire.environ, folder(own / NAME, wire))


def folder(place: Path, wire: Wire) -> list[Edit]:
    contents = plugin.files(wire.command, wire.environ)
    return [Whole(str(place / name), content.decode()) for name, content in contents.items()]
