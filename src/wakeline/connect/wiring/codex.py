"""Codex: our tools as an MCP server, and hooks that announce mail and tell how a session is.

Waking needs nothing more: the bridge finds the shared app server of this user by itself.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from wakeline.connect import toml_edit
from wakeline.connect.change import Edit, Element, Table
from wakeline.connect.wiring.wire import NAME, Launch, Place, Wire

PROGRAM = "codex"
HOOK = ("hook", "codex")
EVENTS = ("UserPromptSubmit", "Stop", "Interrupt")
_TABLE = ("mcp_servers", NAME)


class Codex:
    program = PROGRAM

    def root(self, place: Place) -> Path:
        return place.project / ".codex" if place.project else place.directory("CODEX_HOME", ".codex")

    def edits(self, place: Place, wire: Wire) -> list[Edit]:
        root = self.root(place)
        hooks = [Element(str(root / "hooks.json"), ("hooks", event), hook(wire)) for event in EVENTS]
        return [*hooks, Table(str(root / "config.toml"), _TABLE, server(wire))]

    def notes(self, place: Place) -> tuple[str, ...]:
        trust = ("Codex reads a project's configuration once the project is trusted.",) if place.project else ()
        home = place.directory("CODEX_HOME", ".codex")
        told = (
            () if home == place.home / ".codex" else (f"The bridge must know this home: codex_homes must name {home}.",)
        )
        return ("Codex asks once whether to trust the hooks that announce mail.", *trust, *told)

    def launch(self, place: Place, wire: Wire, own: Path) -> Launch:
        table = toml_edit.render(_TABLE, server(wire)).splitlines()[1:]
        overlay = [word for line in table for word in ("-c", f"{'.'.join(_TABLE)}.{line.replace(' = ', '=', 1)}")]
        return Launch(PROGRAM, tuple(overlay), wire.environ)


def server(wire: Wire) -> dict[str, Any]:
    table: dict[str, Any] = {"command": wire.command[0], "args": [*wire.command[1:], "mcp"], "env": wire.environ}
    return {**table, "default_tools_approval_mode": "approve"} if wire.allow else table


def hook(wire: Wire) -> dict[str, Any]:
    """A hook has no environment of its own in the file, so that stands before its command."""
    given = [f"{name}={shlex.quote(value)}" for name, value in wire.environ.items()]
    command = " ".join([*given, *map(shlex.quote, [*wire.command, *HOOK])])
    return {"hooks": [{"type": "command", "command": command, "timeout": 5}]}
