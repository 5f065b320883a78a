"""Where the harnesses are on this machine, and of which version: on PATH, or in a folder that npm installed into."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

VERSION_SECONDS = 60
_VERSION = re.compile(r"\d+\.\d+\.\d+\S*")


@dataclass(frozen=True, slots=True)
class Installed:
    harness: str
    command: tuple[str, ...]  # what starts it, before any option

    def version(self, seconds: float = VERSION_SECONDS) -> str:
        """What it says of itself, in a home that is not the user's."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            done = subprocess.run(
                [*self.command, "--version"],
                env={"HOME": home, "PATH": os.environ.get("PATH", os.defpath)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds,
            )
        found = _VERSION.search(done.stdout)
        return found.group() if found else "unknown"


def on_path(harness: str, path: str | None = None) -> Installed | None:
    program = shutil.which(PROGRAMS[harness], path=path)
    return Installed(harness, (program,)) if program else None


def in_modules(harness: str, modules: Path, node: Path | str = "node") -> Installed | None:
    """In a `node_modules`: the program itself, because no package's own script ran that would have put it in place."""
    command = layout(harness, modules, node)
    return Installed(harness, tuple(command)) if command and Path(command[-1]).exists() else None


def layout(harness: str, modules: Path, node: Path | str = "node") -> Sequence[str]:
    """What would start it, were it there."""
    return _LAYOUTS[harness](modules, str(node))


def _platform() -> str:
    kind = "arm64" if os.uname().machine in ("aarch64", "arm64") else "x64"
    return f"{sys.platform}-{kind}"


def _claude_code(modules: Path, _: str) -> Sequence[str]:
    return [str(modules / "@anthropic-ai" / f"claude-code-{_platform()}" / "claude")]


def _codex(modules: Path, _: str) -> Sequence[str]:
    vendor = modules / "@openai" / f"codex-{_platform()}" / "vendor"
    return [str(program) for program in vendor.glob("*/bin/codex")][:1]


def _opencode(modules: Path, _: str) -> Sequence[str]:
    return [str(modules / f"opencode-{_platform()}" / "bin" / "opencode")]


def _pi(modules: Path, node: str) -> Sequence[str]:
    return [node, str(modules / "@earendil-works/pi-coding-agent/dist/bundle/cli.js")]


PROGRAMS: Mapping[str, str] = {"claude-code": "claude", "codex": "codex", "opencode": "opencode", "pi": "pi"}
_LAYOUTS: Mapping[str, Callable[[Path, str], Sequence[str]]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "opencode": _opencode,
    "pi": _pi,
}
