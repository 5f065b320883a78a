"""A real server with its bridge, a real Claude Code with our plugin, and a model that reads its mail when rung."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests import harness_tools
from tests.faces.http_calls import new_agent
from wakeline.testing.installed import Installed
from wakeline.testing.model import ModelServer, Reply, Request, Say, Use
from wakeline.testing.model.server import Line
from wakeline.testing.server import ServerProcess
from wakeline.testing.terminal import Terminal, TerminalTimeout
from wakeline.testing.worlds import HarnessSession, World, make_world
from wakeline.testing.worlds.claude_code import ClaudeCodeWorld

HARNESS = "claude-code"
QUESTION = "Do you want to proceed?"
PATIENCE = 60.0
DOORBELL = "unread message"
_MESSAGE = re.compile(r'"message_id":"(\w{26})"')
_MARK = re.compile(r"\[(wl-[0-9A-Z]{26})\]")


def eventually(look: Callable[[], Any], what: str) -> Any:
    """Look at something outside of this process until it is there."""
    until = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < until, what
        time.sleep(0.1)
    return found


def answer(terminal: Terminal, word: str) -> None:
    """Answer the permission dialog.  For a moment after it opened it takes no key: that may be for the prompt."""
    terminal.wait(QUESTION)
    while QUESTION in (screen := terminal.screen):
        found = re.search(rf"(\d)\. {word}\b", screen)
        terminal.press("Escape" if found is None else found.group(1))
        with suppress(TerminalTimeout):
            terminal.wait_gone(QUESTION, 1.0)


class Office:
    def __init__(self, server: ServerProcess, world: ClaudeCodeWorld) -> None:
        self.server, self.world, self.model = server, world, world.model
        self.bob, self.alice = new_agent(server, "bob"), new_agent(server, "alice")
        self.thread = self.alice.thread("work", self.bob)
        self._connect()

    def _connect(self) -> None:
        """As a person does it: with the command, in their own home."""
        done = subprocess.run(
            [sys.executable, "-m", "wakeline", "connect", HARNESS, "--agent", self.bob.handle, "--yes"],
            env={**self.world.environ, "WAKELINE_DATA": str(self.server.data)},
            cwd=self.world.project,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    # -- sessions -----------------------------------------------------------------------------------------------------

    def open(self, *words: str) -> HarnessSession:
        """A session of @bob, seated and idle."""
        session = self.world.open(*words)
        self.wait_for(session, "idle")
        return session

    def seat(self, session: HarnessSession) -> dict[str, Any] | None:
        listed = self.bob.get("/v1/sessions")["sessions"]
        pid = session.terminal.pid
        return next((one for one in listed if one["pid"] == pid and one["ended_at"] is None), None)

    def wait_for(self, session: HarnessSession, presence: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            seat = self.seat(session)
            return seat if seat is not None and seat["presence"] == presence else None

        found: dict[str, Any] = eventually(look, f"the session did not become {presence}: {self.seat(session)}")
        return found

    def talk(self, session: HarnessSession, prompt: str) -> None:
        """A human's turn, to its end and onto the disk."""
        session.prompt(prompt)
        self.wait_for(session, "idle")
        wait_written(self.world, session.native_id)

    # -- mail ---------------------------------------------------------------------------------------------------------

    def send(self, body: str, to: str | None = None, **fields: Any) -> Any:
        """From @alice to @bob, or to one of his sessions."""
        where = {"to": [to]} if to else {"thread_id": self.thread}
        return self.alice.send(body=body, **where, wake_policy=fields.pop("wake_policy", "immediate"), **fields)

    def read_when_rung(self, *then: Line, times: int = 1) -> None:
        """What the model does at the next doorbells: it reads, acknowledges what it has read, and says so."""
        for _ in range(times):
            self.model.script(
                DOORBELL, Use("read_messages", {"limit": 100}), acknowledge, *then, Say("I have read it.")
            )

    def doorbells(self) -> list[Request]:
        """The requests whose news hold one of our marks, each mark at its first showing."""
        known: set[str] = set()
        found = []
        for request in self.model.turns():
            marks = set(_MARK.findall(request.news)) - known
            known |= marks
            found += [request] if marks else []
        return found

    def fetched(self, body: str) -> int:
        """How often this body was brought before a model: the most that any conversation holds."""
        return max((one.text.count(f'"body":"{body}"') for one in self.model.turns()), default=0)

    def deliveries(self) -> list[dict[str, Any]]:
        listed = self.bob.get("/v1/deliveries")["deliveries"]
        return [self.bob.get(f"/v1/deliveries/{one['delivery_id']}") for one in listed]

    def wait_held(self, reason: str) -> None:
        """Until the wake was planned, and put off for this reason."""
        eventually(lambda: reason in held(self.bob.get), f"the wake is not held: {held(self.bob.get)}")

    def wait_for_step(self, step: str) -> dict[str, Any]:
        """The delivery that has come this far."""

        def look() -> dict[str, Any] | None:
            return next((one for one in self.deliveries() if step in steps(one)), None)

        found: dict[str, Any] = eventually(look, f"no delivery was {step}: {self.deliveries()}")
        return found


def wait_written(world: World, native_id: str) -> None:
    """Until an answer is on the disk: what was not written down cannot be resumed."""
    written = f".claude/projects/*/{native_id}.jsonl"

    def is_written() -> bool:
        return any('"type":"assistant"' in path.read_text() for path in world.home.glob(written))

    eventually(is_written, "the turn was not written down")


def held(get: Callable[[str], Any]) -> list[str]:
    """Why the wakes of an agent wait, those of them that do."""
    listed = get("/v1/wake-subscriptions")["subscriptions"]
    shown = [get(f"/v1/wake-subscriptions/{one['subscription_id']}") for one in listed]
    return [wake["reason"] for one in shown for wake in one["held"]]


def acknowledge(request: Request) -> Reply:
    """Mark as read what the last tool has brought."""
    read = request.news.partition('"messages":')[2]
    return Use("ack_read", {"message_ids": _MESSAGE.findall(read)})


def steps(delivery: dict[str, Any]) -> list[str]:
    return [row["step"] for row in delivery["steps"]]


@contextmanager
def office_in(
    folder: Path, *, asks: bool = False, installed: Installed | None = None, **settings: Any
) -> Iterator[Office]:
    harness_tools.need_terminal()
    with (
        ModelServer() as model,
        ServerProcess(folder / "data", **{"coalesce_seconds": 0, **settings}) as server,
        make_world(installed or harness_tools.installed(HARNESS), folder, model, asks=asks) as world,
    ):
        assert isinstance(world, ClaudeCodeWorld)
        yield Office(server, world)
