"""A peer that wakes the same harnesses: hcom, which starts them itself and types into them or hooks into them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.rounds import median
from wakeline.testing.installed import Installed
from wakeline.testing.model import ModelServer
from wakeline.testing.terminal import Terminal
from wakeline.testing.worlds import World, make_world

PROGRAM = Path(sys.prefix) / "bin" / "hcom"
START_SECONDS, PATIENCE_SECONDS, SETTLE_SECONDS = 90.0, 60.0, 4.0
WARM_UP = 1


class Peer:
    """One harness that hcom has started, idle."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self._name = {"claude-code": "claude"}.get(world.harness, world.harness)
        self._programs = folder / "bin"
        self._programs.mkdir()
        shim = self._programs / self._name
        shim.write_text(f'#!/bin/sh\nexec {" ".join(world.command)} "$@"\n')
        shim.chmod(0o755)
        self._environ = {**world.environ, "HCOM_DIR": str(world.home / ".hcom"), "TERM": "xterm-256color"}
        self._environ["PATH"] = f"{self._programs}:{self._environ['PATH']}"

    @contextmanager
    def opened(self) -> Iterator[str]:
        """Answers the name that hcom has given to the session."""
        words = (str(PROGRAM), self._name, *self._world.options())
        terminal = Terminal(words, cwd=self._world.project, environ=self._environ).start()
        try:
            terminal.wait(self._world.ready, START_SECONDS)
            time.sleep(SETTLE_SECONDS)
            terminal.submit("good morning")
            self._world.model.wait("good morning", timeout=PATIENCE_SECONDS)
            time.sleep(SETTLE_SECONDS)
            yield self._run("list", "--names").split()[0]
        finally:
            terminal.stop()

    def send(self, name: str) -> float:
        """Milliseconds from its command to the model's request."""
        text, before, began = f"news {uuid.uuid4().hex}", len(self._world.model.requests), time.monotonic()
        self._run("send", "--from", "bench", f"@{name}", "--", text)
        at = self._world.model.wait(text, after=before, timeout=PATIENCE_SECONDS).at
        time.sleep(SETTLE_SECONDS)  # it does not tell when a session is idle again
        return (at - began) * 1000

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [str(PROGRAM), *words], env=self._environ, cwd=self._world.project, capture_output=True, text=True,
            check=True, timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        return done.stdout


def latency(installed: Installed, wakes: int) -> float:
    """The median of so many wakes, in milliseconds."""
    if shutil.which(str(PROGRAM)) is None:
        raise RuntimeError("hcom is not installed: make bench installs it")
    with tempfile.TemporaryDirectory(prefix="wakeline-bench-") as place, ModelServer() as model:
        folder = Path(place)
        with make_world(installed, folder / "world", model) as world:
            peer = Peer(world, folder)
            with peer.opened() as name:
                return median([peer.send(name) for _ in range(WARM_UP + wakes)][WARM_UP:])
