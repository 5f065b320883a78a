"""A real server with its bridge, a real Codex connected to it, and a model that reads its mail when it is rung."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import harness_tools
from tests.faces.http_calls import Actor, new_agent
from tests.harnesses.office import acknowledge, held
from wakeline.testing.model import ModelServer, Request, Say, Use
from wakeline.testing.server import ServerProcess
from wakeline.testing.terminal import end_process
from wakeline.testing.worlds import HarnessSession, World, make_world
from wakeline.testing.worlds.world import residents

PATIENCE = 60.0
RUNG = "unread message"
_MARK = re.compile(r"\[(wl-[0-9A-Z]{26})\]")


def eventually(look: Callable[[], Any], what: str) -> Any:
    """Look at something outside of this process until it is there."""
    until = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < until, what
        time.sleep(0.1)
    return found


def an_entry(server: ServerProcess, agent: Actor, folder: Path) -> str:
    """What `wakeline connect codex` writes into config.toml."""
    secret = folder / f"{agent.handle[1:]}.token"
    secret.write_text(agent.token or "")
    environ = f'{{ WAKELINE_TOKEN_FILE = "{secret}", WAKELINE_DATA = "{server.data}" }}'
    command = f'command = "{sys.executable}"\nargs = ["-m", "wakeline", "mcp"]\nenv = {environ}\n'
    return f'\n[mcp_servers.wakeline]\n{command}default_tools_approval_mode = "approve"\n'


class CodexDesk:
    """@bob works in Codex; @alice writes to him."""

    def __init__(self, server: ServerProcess, world: World, folder: Path) -> None:
        self.server, self.world, self.model, self.folder = server, world, world.model, folder
        self.bob, self.alice = new_agent(server, "bob"), new_agent(server, "alice")
        self.config = world.home / ".codex" / "config.toml"
        self.config.write_text(self.config.read_text() + an_entry(server, self.bob, folder))

    def add_hooks(self, *events: str) -> None:
        """What `wakeline connect codex` writes into hooks.json, and the human's word that these hooks are trusted."""
        given = {"WAKELINE_TOKEN_FILE": f"{self.folder}/{self.bob.handle[1:]}.token", "WAKELINE_DATA": self.server.data}
        words = [
            *(f"{name}={value}" for name, value in given.items()),
            sys.executable,
            "-m",
            "wakeline",
            "hook",
            "codex",
        ]
        hook = {"hooks": [{"type": "command", "command": " ".join(words), "timeout": 10}]}
        path = self.config.with_name("hooks.json")
        path.write_text(json.dumps({"hooks": {event: [hook] for event in events}}))
        trusted = [f'[hooks.state."{one["key"]}"]\ntrusted_hash = "{one["currentHash"]}"\n' for one in self._hooks()]
        assert len(trusted) == len(events)
        self.config.write_text("\n".join([self.config.read_text(), *trusted]))

    def _hooks(self) -> list[dict[str, str]]:
        asked = [
            {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}},
            {"method": "initialized"},
            {"id": 2, "method": "hooks/list", "params": {"cwds": [str(self.world.project)]}},
        ]
        with subprocess.Popen(
            [*self.world.command, "app-server"],
            env=self.world.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.writelines(json.dumps(one) + "\n" for one in asked)
            process.stdin.flush()
            answer = next(said for line in process.stdout if (said := json.loads(line)).get("id") == 2)
            process.stdin.close()
        found: list[dict[str, str]] = answer["result"]["data"][0]["hooks"]
        return found

    # -- sessions -----------------------------------------------------------------------------------------------------

    def sessions(self, agent: Actor | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (agent or self.bob).get("/v1/sessions")["sessions"]
        return found

    def open(self, *words: str) -> tuple[HarnessSession, dict[str, Any]]:
        """A terminal, and the session that it is to us, idle."""
        before = {one["session_id"] for one in self.sessions()}
        session = self.world.open(*words)

        def look() -> dict[str, Any] | None:
            fresh = (one for one in self.sessions() if one["session_id"] not in before)
            return next((one for one in fresh if one["presence"] == "idle"), None)

        return session, eventually(look, f"the terminal is no session: {self.sessions()}\n{self.server.output}")

    def wait_presence(self, presence: str, session_id: str | None = None) -> None:
        def look() -> bool:
            return any(
                one["presence"] == presence for one in self.sessions() if session_id in (None, one["session_id"])
            )

        eventually(look, f"no session is {presence}: {self.sessions()}")

    def kill_app_server(self) -> None:
        for pid in residents(self.world.home):
            with contextlib.suppress(OSError):  # what was stopped just now may go while we look
                if b"--listen" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    end_process(pid)

    # -- mail ---------------------------------------------------------------------------------------------------------

    def send(self, body: str, to: str | None = None, **fields: Any) -> Any:
        return self.alice.send(to=[to or self.bob.handle], body=body, **fields)

    def read_when_rung(self, times: int = 1) -> None:
        """What the model does at the next doorbells: it reads, acknowledges what it has read, and says so."""
        for _ in range(times):
            self.model.script(RUNG, Use("read_messages", {"limit": 100}), acknowledge, Say("I have read it."))

    def doorbells(self) -> list[Request]:
        """The requests of turns that show a mark for the first time."""
        known: set[str] = set()
        found = []
        for request in self.model.turns():
            marks = set(_MARK.findall(request.news)) - known
            known |= marks
            found += [request] if marks else []
        return found

    def fetched(self, body: str) -> list[Request]:
        """The requests in which this body is news."""
        return self.model.turns(body)

    def deliveries(self) -> list[dict[str, Any]]:
        listed = self.bob.get("/v1/deliveries")["deliveries"]
        return [self.bob.get(f"/v1/deliveries/{one['delivery_id']}") for one in listed]

    def wait_held(self, reason: str) -> None:
        eventually(lambda: reason in held(self.bob.get), f"the wake is not held: {held(self.bob.get)}")

    def wait_step(self, step: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            return next((one for one in self.deliveries() if step in [row["step"] for row in one["steps"]]), None)

        found: dict[str, Any] = eventually(look, f"no delivery was {step}: {json.dumps(self.deliveries(), indent=1)}")
        return found


@contextmanager
def a_bridge_elsewhere(desk: CodexDesk) -> Iterator[None]:
    """`wakeline bridge` with a data directory of its own, as on another machine."""
    token = desk.server.call("POST", "/v1/tokens", {"handle": "@system", "bridge": "elsewhere"}).json()["token"]
    environ = {
        **{name: value for name, value in desk.server.environ.items() if name != "WAKELINE_DATA"},
        "WAKELINE_DATA": str(desk.folder / "bridge"),
        "WAKELINE_TOKEN": token,
        "WAKELINE_CODEX_HOMES": str(desk.config.parent),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "wakeline", "bridge", "--server", desk.server.url],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert "ready" in process.stdout.readline()
            yield
        finally:
            process.terminate()


@contextmanager
def codex_desk(folder: Path, model: ModelServer, **settings: Any) -> Iterator[CodexDesk]:
    harness_tools.need_terminal()
    with make_world(harness_tools.installed("codex"), folder, model) as world:
        homes = str(world.home / ".codex")
        with ServerProcess(folder / "data", codex_homes=homes, **{"coalesce_seconds": 0, **settings}) as server:
            yield CodexDesk(server, world, folder)
