"""What `make tools` installs for tests: Node, the MCP conformance suite and the harnesses, pinned in requirements/.

In CI what is missing is a failure; on a laptop the test is skipped and says how to get it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

VENV = Path(sys.prefix)
MODULES = VENV / "tools" / "node_modules"
NODE = VENV / "bin" / "node"


def _at_hand(path: Path) -> Path:
    if not path.exists():
        words = f"{path.name} is not installed: make tools"
        if os.environ.get("CI") == "true":
            pytest.fail(words)
        pytest.skip(words)
    return path


def _platform() -> str:
    kind = "arm64" if os.uname().machine in ("aarch64", "arm64") else "x64"
    return f"{sys.platform}-{kind}"


def conformance() -> list[str]:
    return [str(_at_hand(NODE)), str(_at_hand(MODULES / "@modelcontextprotocol/conformance/dist/index.js"))]


def claude() -> list[str]:
    """The program itself: the package's own script would copy it, and no package's script runs."""
    return [str(_at_hand(MODULES / "@anthropic-ai" / f"claude-code-{_platform()}" / "claude"))]


def codex() -> list[str]:
    return [str(_at_hand(NODE)), str(_at_hand(MODULES / "@openai/codex/bin/codex.js"))]


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
