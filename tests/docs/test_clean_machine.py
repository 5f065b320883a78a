"""`.ci/run` is what a clean machine runs: one step that fails must not keep the others from being seen."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.snippets import ROOT

STEPS = [".venv/.venv", "install", "tools", "check", "test"]


def run(folder: Path, *, failing: str) -> tuple[list[str], int]:
    """Run it where `make` only notes what it is asked for; answers that, and the exit code."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    commands = folder / "commands"
    commands.mkdir()
    for name, script in {"make": f'echo "$1" >> asked; [ "$1" != "{failing}" ]', "tmux": "true"}.items():
        (commands / name).write_text(f"#!/bin/sh\n{script}\n")
        (commands / name).chmod(0o755)
    done = subprocess.run([folder / ".ci" / "run"], env={"PATH": f"{commands}:/usr/bin:/bin"}, check=False)
    return (folder / "asked").read_text().split(), done.returncode


@pytest.mark.parametrize("failing", ["tools", "check", "test"])
def test_a_step_that_fails_hides_no_other_and_fails_the_run(tmp_path: Path, failing: str) -> None:
    assert run(tmp_path, failing=failing) == (STEPS, 1)


def test_where_nothing_fails_the_run_passes(tmp_path: Path) -> None:
    assert run(tmp_path, failing="nothing") == (STEPS, 0)
