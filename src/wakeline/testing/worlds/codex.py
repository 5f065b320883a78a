"""Codex, with the shared daemon that it starts.  It asks its human when the model says so: `Shell(asks=True)`."""

from __future__ import annotations

import json
from pathlib import Path

from wakeline.testing.worlds.world import MODEL, World

CONFIG = """\
model = "{model}"
model_provider = "stand_in"
check_for_update_on_startup = false
approval_policy = "on-request"

[model_providers.stand_in]
name = "stand-in"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "STAND_IN_KEY"

[projects.{project}]
trust_level = "trusted"
"""


class CodexWorld(World):
    harness = "codex"
    ready = "? for shortcuts"
    question = "Would you like to run the following command?"

    @property
    def config(self) -> Path:
        return self.home / ".codex"

    @property
    def control_socket(self) -> Path:
        """Where its daemon listens, once a session was opened."""
        return self.config / "app-server-control" / "app-server-control.sock"

    def configure(self) -> None:
        self.config.mkdir(exist_ok=True)
        project = json.dumps(str(self.project))
        text = CONFIG.format(model=MODEL, url=self.model.url, project=project)
        (self.config / "config.toml").write_text(text)

    def variables(self) -> dict[str, str]:
        return {"CODEX_HOME": str(self.config), "STAND_IN_KEY": "stand-in"}
