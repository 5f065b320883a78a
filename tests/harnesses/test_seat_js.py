"""The seat of the companions that are written for a harness of JavaScript, in the runtimes of these harnesses."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import harness_tools
from tests.harnesses.stand_in_bridge import StandInBridge

SEAT = Path(__file__).parents[2] / "src/wakeline/harnesses/companion/seat.js"
RUNTIMES = ("node", "bun")

# It sees nothing of the bridge's end before it has written, as a companion in a harness that is busy.
COMPANION = """
import { existsSync } from "node:fs";
import { Seat } from "%(seat)s";

const hello = () => ({ token: "a token", native_id: "n" });
const seat = new Seat(() => "%(path)s", hello, async () => ({ result: "accepted" }), (welcome, first) => {
  if (!first) return;
  while (!existsSync("%(died)s"));
  seat.ended("a turn", "completed", "the answer");
  seat.presence("idle");
});
seat.presence("active", "a turn");
seat.open();
setInterval(() => {}, 1000);
"""


def command(runtime: str) -> list[str]:
    """How a script is run.  The program of opencode is Bun, if it is told so."""
    if runtime == "node":
        return [harness_tools.node()]
    return ["env", "BUN_BE_BUN=1", *harness_tools.installed("opencode").command]


@contextmanager
def running(runtime: str, script: Path) -> Iterator[None]:
    with subprocess.Popen([*command(runtime), str(script)], start_new_session=True) as process:
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # `node` may be a program that starts the real one


@pytest.mark.guarantee("G-PI-OPENCODE-SURVIVES")
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_turn_that_ended_as_the_bridge_died_is_told_to_the_next(runtime: str, tmp_path: Path) -> None:
    died, script = tmp_path / "died", tmp_path / "companion.mjs"
    with StandInBridge(tmp_path / "seats") as bridge:
        script.write_text(COMPANION % {"seat": SEAT, "path": bridge.path, "died": died})
        with running(runtime, script):
            bridge.wait_for("presence", presence="active")
            bridge.close()
            died.touch()
            after = bridge.length
            bridge.open()
            bridge.wait_for("hello", after)
            bridge.wait_for("turn_ended", after, turn_id="a turn", last="the answer")
            bridge.wait_for("presence", after, presence="idle")
