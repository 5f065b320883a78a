"""What `make tools` installs for tests: Node, the MCP conformance suite and the harnesses, pinned in requirements/.

In CI what is missing is a failure; on a laptop the test is skipped and says how to get it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from wakeline.testing.installed import Installed, in_modules

VENV = Path(sys.prefix)
MODULES = VENV / "tools" / "node_modules"
NODE = VENV / "bin" / "node"


def _missing(what: str, remedy: str) -> NoReturn:
    words = f"{what} is not installed: {remedy}"
    if os.environ.get("CI") == "true":
        pytest.fail(words)
    pytest.skip(words)


def _at_hand(path: Path) -> Path:
    return path if path.exists() else _missing(path.name, "make tools")


def installed(harness: str) -> Installed:
    return in_modules(harness, MODULES, NODE) or _missing(harness, "make tools")


def node() -> str:
    return str(_at_hand(NODE))


def need_terminal() -> None:
    """Skip the test where there is no tmux to run a harness in."""
    if shutil.which("tmux") is None:
        _missing("tmux", "install it with the system's package manager")


def conformance() -> list[str]:
    return [str(_at_hand(NODE)), str(_at_hand(MODULES / "@modelcontextprotocol/conformance/dist/index.js"))]


def claude() -> list[str]:
    return [*installed("claude-code").command]


def claude_without_inbox() -> Installed:
    """A Claude Code of before 2.1.224, which has no inbox socket."""
    return Installed("claude-code", (str(_at_hand(MODULES / "claude-code-without-inbox" / "claude")),))


def codex() -> list[str]:
    return [*installed("codex").command]


def world(home: Path, **environ: str) -> dict[str, str]:
    """An environment of its own: another home, no credentials, nothing that phones anywhere."""
    home.mkdir(exist_ok=True)
    return {
        "HOME": str(home),
        "PATH": f"{VENV / 'bin'}:/usr/bin:/bin",
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CODEX_HOME": str(home / ".codex"),
        **environ,
    }
