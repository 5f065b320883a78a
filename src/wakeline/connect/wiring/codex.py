"""Codex: our tools as an MCP server, and hooks that announce mail and tell how a session is.

Waking needs nothing more where they stand in its configuration: the bridge finds the shared app server of this user by
itself.  A terminal that is given settings on its command line runs without that server.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from wakeline.connect import toml_edit
from wakeline.connect.change import Edit, Element, Table
from wakeline.connect.wiring.wire import NAME, Launch, Place, Wire

PROGRAM = "codex"
HOOK = ("hook", "codex")
EVENTS = {
    "UserPromptSubmit": "user_prompt_submit",
    "Stop": "stop",
    "Interrupt": "interrupt",
}  # and where it keeps trust
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
        """Its terminal has no app server then, so the hooks make it a session, and `codex queue` rings in it."""
        settings = {".".join((*_TABLE, name)): value for name, value in server(wire).items()}
        settings |= {f"hooks.{event}": [hook(wire)] for event in EVENTS}
        others = connected_hooks(self.root(place) / "hooks.json")
        if others:
            settings["hooks.state"] = {key: {"enabled": False} for key in others}
        overlay = [word for name, value in settings.items() for word in ("-c", f"{name}={toml_edit.value(value)}")]
        return Launch(PROGRAM, tuple(overlay), wire.environ)


def server(wire: Wire) -> dict[str, Any]:
    table: dict[str, Any] = {"command": wire.command[0], "args": [*wire.command[1:], "mcp"], "env": wire.environ}
    return {**table, "default_tools_approval_mode": "approve"} if wire.allow else table


def connected_hooks(path: Path) -> list[str]:
    """Those that `connect` wrote into this file, by Codex's own names for them: they would speak for that agent too.

    Of a file that cannot be read, Codex runs none either.
    """
    try:
        events = json.loads(path.read_text("utf-8"))["hooks"]
        found = [
            f"{EVENTS[event]}:{place}:{number}"
            for event in EVENTS
            for place, group in enumerate(events.get(event, ()))
            for number, one in enumerate(group["hooks"])
            if one.get("command", "").endswith(f" {shlex.join(HOOK)}")
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    names = dict.fromkeys((path, path.resolve()))  # Codex follows the links of a home that CODEX_HOME names
    return [f"{name}:{place}" for name in names for place in found]


def hook(wire: Wire) -> dict[str, Any]:
    """A hook has no environment of its own in the file, so that stands before its command."""
    given = [f"{name}={shlex.quote(value)}" for name, value in wire.environ.items()]
    command = " ".join([*given, *map(shlex.quote, [*wire.command, *HOOK])])
    return {"hooks": [{"type": "command", "command": command, "timeout": 5}]}
