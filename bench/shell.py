"""`wakeline send` from the shell, beside a Python that starts and does nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.results import Figure, figure
from bench.rounds import Plan, median, take_turns
from bench.servers import real_server

NAME = "shell"
RUNS = 9  # per round


def _milliseconds(command: list[str], environ: dict[str, str]) -> float:
    """The median of a few runs, from start to exit."""
    took = []
    for _ in range(RUNS):
        began = time.perf_counter()
        subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
        took.append((time.perf_counter() - began) * 1000)
    return median(took)


def measure(plan: Plan) -> list[Figure]:
    here = Path(sys.executable)
    with tempfile.TemporaryDirectory(prefix="wakeline-bench-") as folder, real_server(Path(folder) / "data") as server:
        server.add_agent("@bob")
        send = [str(here.with_name("wakeline")), "send", "@bob", "The build is green."]
        nothing = [str(here), "-c", "pass"]
        environ = server.environ
        for _ in range(2):  # the first run compiles
            _milliseconds(send, environ)
        contenders = {
            "send": lambda: _milliseconds(send, environ),
            "python": lambda: _milliseconds(nothing, environ),
        }
        measured = take_turns(NAME, plan.rounds, contenders, "ms")
    note = "reference: `python -c pass` of the same environment"
    ours, reference = median(measured["send"]), median(measured["python"])
    return [figure(f"{NAME}: wakeline send", ours, reference, "ms", note, at_most=3)]
