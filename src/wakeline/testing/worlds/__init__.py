"""Throwaway worlds for real harnesses: own home, own configuration, own environment, and a model on loopback.

    with ModelServer() as model, make_world(installed, folder, model) as world:
        session = world.open()                # the real program, in a terminal, idle
        request = session.prompt("hello")     # a human types; the request that reached the model

Nothing of whoever runs the tests gets in: no variable, no credential, no configuration.  Closing a world ends every
process that has its home, also those that a harness left behind.
"""

from collections.abc import Mapping
from pathlib import Path

from wakeline.testing.installed import Installed
from wakeline.testing.model import ModelServer
from wakeline.testing.worlds.claude_code import ClaudeCodeWorld
from wakeline.testing.worlds.codex import CodexWorld
from wakeline.testing.worlds.opencode import OpencodeWorld
from wakeline.testing.worlds.pi import PiWorld
from wakeline.testing.worlds.world import HarnessSession, World

WORLDS: Mapping[str, type[World]] = {
    world.harness: world for world in (ClaudeCodeWorld, CodexWorld, OpencodeWorld, PiWorld)
}


def make_world(installed: Installed, folder: Path, model: ModelServer, *, asks: bool = False) -> World:
    return WORLDS[installed.harness](folder, model, installed.command, asks=asks)


__all__ = ["WORLDS", "HarnessSession", "World", "make_world"]
