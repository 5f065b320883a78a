"""Worlds of pi and opencode with our companion in them, as `wakeline connect` leaves them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import wakeline
from wakeline.testing.worlds import World

HARNESSES = Path(wakeline.__file__).parent / "harnesses"
OURS = [sys.executable, "-m", "wakeline"]

QUESTION = "Permission required"
ANSWERS = ("yes", "no", "esc")
KEYS = {
    "pi": {"yes": ("Enter",), "no": ("Down", "Enter"), "esc": ("Escape",)},
    "opencode": {"yes": ("Enter",), "no": ("Right", "Right", "Enter", "Enter"), "esc": ("Escape",)},
}
GATE = """
export default function (pi) {
  pi.on("tool_call", async (event, ctx) => {
    if (event.toolName !== "bash") return;
    if (!(await ctx.ui.confirm("Permission required", event.input.command))) return { block: true, reason: "no" };
  });
}
"""


def asking(world: World) -> tuple[str, ...]:
    """The words that let a harness ask before it runs a command.  pi never does by itself, but its extensions can."""
    if world.harness != "pi":
        return ()
    gate = world.home / "gate.ts"
    gate.write_text(GATE)
    return ("-e", str(gate))


def wire(world: World, environ: dict[str, str]) -> None:
    """Let what is opened in this world from now on find the bridge and the server that `environ` names."""
    world.extra.update(environ)
    (_pi if world.harness == "pi" else _opencode)(world, environ)


def _pi(world: World, environ: dict[str, str]) -> None:
    change(world.home / ".pi/agent/settings.json", extensions=[str(HARNESSES / "pi/wakeline.ts")])


def _opencode(world: World, environ: dict[str, str]) -> None:
    server = {"type": "local", "command": [*OURS, "mcp"], "enabled": True, "environment": environ}
    plugin = (HARNESSES / "opencode/wakeline.js").as_uri()
    change(world.home / ".config/opencode/opencode.json", plugin=[plugin], mcp={"wakeline": server})


def change(config: Path, **fields: Any) -> None:
    config.write_text(json.dumps({**json.loads(config.read_text()), **fields}))
