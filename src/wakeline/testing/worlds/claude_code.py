"""Claude Code: told that it was set up long ago, and that its key is approved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wakeline.testing.terminal import Terminal
from wakeline.testing.worlds.world import World

KEY = "sk-ant-stand-in-0000000000000000000000"
SHOWN = 20  # of a key it keeps only the end


class ClaudeCodeWorld(World):
    harness = "claude-code"
    ready = "❯"  # noqa: RUF001 - that is how its prompt begins
    question = "Do you want to proceed?"
    approves = "1"
    resumes = ("--resume",)

    @property
    def config(self) -> Path:
        return self.home / ".claude"

    def configure(self) -> None:
        self.config.mkdir(exist_ok=True)
        state: dict[str, Any] = {
            "hasCompletedOnboarding": True,
            "hasSeenAutoDefaultNudge": True,
            "customApiKeyResponses": {"approved": [KEY[-SHOWN:]], "rejected": []},
            "projects": {str(self.project): {"hasTrustDialogAccepted": True}},
        }
        permissions = {"defaultMode": "default", "allow": [] if self.asks else ["Bash", "Edit", "Write"]}
        (self.config / ".claude.json").write_text(json.dumps(state))
        (self.config / "settings.json").write_text(json.dumps({"permissions": permissions}))

    def variables(self) -> dict[str, str]:
        return {
            "CLAUDE_CONFIG_DIR": str(self.config),
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        }

    def native_id(self, terminal: Terminal) -> str | None:
        return str(self.status(terminal)["sessionId"])

    def status(self, terminal: Terminal) -> dict[str, Any]:
        """What the harness itself publishes of a running session: its id, its inbox socket, whether it is busy."""
        document: dict[str, Any] = json.loads((self.config / "sessions" / f"{terminal.pid}.json").read_text())
        return document
