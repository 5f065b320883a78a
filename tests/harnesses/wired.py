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
