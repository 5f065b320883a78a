"""The ways into each harness that a throwaway world can bring up, and how a session comes to be reached by each."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wakeline.testing.opencode_server import PASSWORD, OpencodeServe

if TYPE_CHECKING:
    from wakeline.testing.worlds import HarnessSession, World

TMUX = "tmux"
BELL = "WAKELINE_CLAUDE_BELL"


class Way:
    """`wakeline connect`, then the harness, perhaps with a word or a variable that chooses this way."""

    typed = False  # by keystrokes, which prove no level that asks for an official surface

    def __init__(
        self, transport: str, *, words: tuple[str, ...] = (), variables: Mapping[str, str] | None = None
    ) -> None:
        self.transport = transport
        self.words = words
        self.variables = dict(variables or {})

    def settings(self, folder: Path) -> dict[str, Any]:
        """What the server must know of it."""
        return {}

    def arrange(self, world: World) -> None:
        """Once the harness is connected, before it is opened."""
        world.extra.update(self.variables)

    def open(self, world: World, *words: str) -> HarnessSession:
        return world.open(*self.words, *words)

    def settle(self, session: HarnessSession, agent: str, data: Path) -> None:
        """Once its human has spoken."""

    def native_id(self, session: HarnessSession) -> str:
        """What the server knows the session by."""
        return session.native_id

    def fell(self, world: World, session: HarnessSession) -> None:
        world.fell(session)

    def resume(self, world: World, native_id: str) -> HarnessSession:
        return self.open(world, *world.resumes, native_id)

    def close(self) -> None:
        """End what it started beside the world."""


class Served(Way):
    """opencode's own server, without our plugin, and terminals that are attached to it."""

    def __init__(self) -> None:
        super().__init__("served")
        self._served: OpencodeServe | None = None
        self._port = 0

    def settings(self, folder: Path) -> dict[str, Any]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        secret = folder / "password"
        secret.write_text(PASSWORD)
        return {"opencode_servers": f"http://127.0.0.1:{self._port}", "opencode_password_file": str(secret)}

    def arrange(self, world: World) -> None:
        config = world.home / ".config" / "opencode" / "opencode.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "plugin": []}))
        world.extra["OPENCODE_SERVER_PASSWORD"] = PASSWORD
        self._served = OpencodeServe(world, port=self._port).start()
        self.words = ("attach", self._served.url, "--dir", str(world.project))

    def fell(self, world: World, session: HarnessSession) -> None:
        super().fell(world, session)
        self.close()

    def resume(self, world: World, native_id: str) -> HarnessSession:
        if self._served is not None:
            self._served.start()
        return super().resume(world, native_id)

    def close(self) -> None:
        if self._served is not None:
            self._served.kill()


class Typed(Way):
    """Keystrokes into the pane of a connected harness, which has its tools from there."""

    typed = True

    def __init__(self) -> None:
        super().__init__(TMUX)

    def settle(self, session: HarnessSession, agent: str, data: Path) -> None:
        environ = {**session.world.environ, "WAKELINE_DATA": str(data), "TMUX": f"{session.terminal.socket},1,0"}
        words = ("connect", TMUX, "--pane", "%0", "--agent", agent)
        done = subprocess.run(
            [sys.executable, "-m", "wakeline", *words],
            env=environ,
            cwd=session.world.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"wakeline connect tmux failed: {done.stderr.strip()[-300:]}")

    def native_id(self, session: HarnessSession) -> str:
        return f"{session.terminal.socket},%0"


def ways(harness: str) -> dict[str, Way]:
    """By transport, what people get without choosing first.  Fresh ones: a way holds what it started."""
    found: dict[str, tuple[Way, ...]] = {
        "claude-code": (
            Way("inbox-socket"),
            Way("async-rewake", variables={BELL: "rewake"}),
            Way("watch-paths", variables={BELL: "watch"}),
            Typed(),
        ),
        "codex": (Way("app-server"), Way("queue-command", words=("--no-daemon",)), Typed()),
        "opencode": (Way("plugin"), Served()),
        "pi": (Way("extension"), Typed()),
    }
    return {way.transport: way for way in found[harness]}
