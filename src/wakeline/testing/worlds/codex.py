"""Codex, with the shared daemon that it starts.  It asks its human when the model says so: `Shell(asks=True)`."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from wakeline.testing.terminal import Terminal, end_process
from wakeline.testing.worlds.world import MODEL, START_SECONDS, HarnessSession, World, residents

DAEMON_TRIES = 3
TRUSTED = "[hooks.state"
REVIEW = "Hooks need review"
CHOSEN = "› 2. Trust all"  # noqa: RUF001 - that is how its lists show what is chosen
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
    approves = "y"
    resumes = ("resume",)

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

    def settle(self, terminal: Terminal) -> None:
        """It asks once whether the hooks in its configuration are to be trusted, a while after it shows its prompt."""
        hooks, config = self.config / "hooks.json", self.config / "config.toml"
        if hooks.exists() and TRUSTED not in config.read_text():
            terminal.wait(REVIEW, START_SECONDS)
            terminal.press_until("2", lambda: REVIEW not in terminal.screen or CHOSEN in terminal.screen)
            terminal.press_until("Enter", lambda: TRUSTED in config.read_text())
            terminal.wait_gone(REVIEW)

    def fell(self, session: HarnessSession) -> None:
        """With its daemon, which is what runs the turns of every terminal."""
        super().fell(session)
        for pid in residents(self.home):
            with contextlib.suppress(OSError):  # it may have ended by itself
                if b"--listen" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    end_process(pid)

    def variables(self) -> dict[str, str]:
        return {"CODEX_HOME": str(self.config), "STAND_IN_KEY": "stand-in"}


def start_daemon(world: World) -> None:
    """Codex gives its daemon only so long to come, which a busy machine can exceed; it is asked again."""
    for _ in range(DAEMON_TRIES - 1):
        with contextlib.suppress(RuntimeError):
            world.run("app-server", "daemon", "start")
            return
    world.run("app-server", "daemon", "start")
