"""Somebody at a prompt who has harnesses: a home of their own, the real programs on the path, a server."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from tests import harness_tools
from tests.faces.command_line import Shell
from wakeline.testing.installed import PROGRAMS
from wakeline.testing.server import ServerProcess
from wakeline.testing.worlds import World

LISTING = {"claude-code": ("mcp", "list"), "codex": ("mcp", "list"), "opencode": ("mcp", "list")}
# What people write there; programs keep more of their own beside it.
SETTINGS = {
    "claude-code": (".claude/settings.json",),
    "codex": (".codex/config.toml", ".codex/hooks.json"),
    "opencode": (".config/opencode/opencode.json",),
    "pi": (".pi/agent/settings.json", ".pi/agent/models.json"),
}


def shell_in(world: World, server: ServerProcess) -> Shell:
    """With the harness on the path, by the name that people call it by."""
    folder = world.home.parent / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / PROGRAMS[world.harness]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(world.command)} "$@"\n')
    program.chmod(0o755)
    path = os.pathsep.join((str(folder), world.environ["PATH"]))
    return Shell({**world.environ, "PATH": path, "WAKELINE_DATA": str(server.data)})


def shell_at(home: Path, server: ServerProcess) -> Shell:
    """Without any harness: what is written does not depend on one."""
    home.mkdir(exist_ok=True)
    return Shell({**server.environ, **harness_tools.world(home), "WAKELINE_DATA": str(server.data)})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def settings_of(world: World) -> dict[str, bytes | None]:
    places = {name: world.home / name for name in SETTINGS[world.harness]}
    return {name: path.read_bytes() if path.exists() else None for name, path in places.items()}
