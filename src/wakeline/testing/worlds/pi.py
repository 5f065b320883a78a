"""pi, which never asks before it runs a command."""

from __future__ import annotations

import json
from pathlib import Path

from wakeline.testing.worlds.world import MODEL, World


class PiWorld(World):
    harness = "pi"
    ready = "escape interrupt"
    again = "(auto)"  # in its last line: the first ones are pushed away by a long conversation
    resumes = ("--session",)

    @property
    def config(self) -> Path:
        return self.home / ".pi" / "agent"

    def configure(self) -> None:
        self.config.mkdir(parents=True, exist_ok=True)
        provider = {
            "baseUrl": f"{self.model.url}/v1",
            "api": "openai-completions",
            "apiKey": "stand-in",
            # Else a request would not say which session it belongs to.
            "compat": {"sendSessionAffinityHeaders": True},
            "models": [{"id": MODEL}],
        }
        (self.config / "models.json").write_text(json.dumps({"providers": {"stand-in": provider}}))
        settings = {"defaultProvider": "stand-in", "defaultModel": MODEL}
        (self.config / "settings.json").write_text(json.dumps(settings))

    def variables(self) -> dict[str, str]:
        return {"PI_CODING_AGENT_DIR": str(self.config), "PI_OFFLINE": "1"}
