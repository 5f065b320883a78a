"""opencode, with a provider of its own configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wakeline.testing.worlds.world import MODEL, World


class OpencodeWorld(World):
    harness = "opencode"
    ready = "ctrl+p commands"
    question = "Permission required"
    approves = "Enter"
    resumes = ("-s",)

    @property
    def config(self) -> Path:
        return self.home / ".config" / "opencode"

    def configure(self) -> None:
        self.config.mkdir(parents=True, exist_ok=True)
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "stand-in"},
            "models": {MODEL: {"name": MODEL, "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}},
        }
        settings: dict[str, Any] = {
            "model": f"stand-in/{MODEL}",
            "small_model": f"stand-in/{MODEL}",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"bash": "ask" if self.asks else "allow"},
            "provider": {"stand-in": provider},
        }
        (self.config / "opencode.json").write_text(json.dumps(settings))

    def variables(self) -> dict[str, str]:
        return {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
