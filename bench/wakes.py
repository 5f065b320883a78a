"""From a message to the request that reaches a model, in each real harness: beside the harness's own bare surface.

Both take turns in one session: a post through our server, its bridge and the companion, and a text given straight to
the surface that they end up at.  The harness, its terminal and the model's stand-in are the same.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench import hcom
from bench.results import Figure, figure
from bench.rounds import Plan, median, say
from bench.servers import ROOT, UNLIMITED
from wakeline.adapters.codex.messages import Queued
from wakeline.adapters.codex.server import open_app_server
from wakeline.adapters.codex.threads import as_input
from wakeline.testing.installed import Installed, in_modules
from wakeline.testing.model import ModelServer
from wakeline.testing.server import ServerProcess
from wakeline.testing.worlds import HarnessSession, World, make_world
from wakeline.testing.worlds.claude_code import ClaudeCodeWorld
from wakeline.version import VERSION

NAME = "wakes"
UNIT = "ms"
WAKES = {9: 10, 3: 6}  # by the plan's rounds
WARM_UP = 2
PATIENCE_SECONDS = 60.0
SLACK_MS = 15.0
SETTLE_SECONDS = 0.3
LEFT_OUT = (RuntimeError, OSError, LookupError, AssertionError)
TRUST = "Trust all and continue"
HARNESSES = ("claude-code", "codex", "opencode", "pi")

Ring = Callable[[str], None]  # give this text to the session, by its own surface


def measure(plan: Plan) -> list[Figure]:
    figures = []
    for harness in HARNESSES:
        try:
            figures.append(_measure(harness, WAKES[plan.rounds]))
            figures.append(_beside(harness, figures[-1].ours, WAKES[plan.rounds]))
        except (*LEFT_OUT, subprocess.SubprocessError) as error:
            say(NAME, f"{harness} is left out: {str(error).strip().splitlines()[0]}")
    return figures


def _beside(harness: str, ours: float, wakes: int) -> Figure:
    theirs = hcom.latency(_installed(harness), wakes)
    note = "reference: hcom, from its own command to the model's request, in the same harness"
    return figure(f"{NAME}: {harness}, beside hcom", ours, theirs, UNIT, note)


def _measure(harness: str, wakes: int) -> Figure:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wakeline-bench-")))
        scene = stack.enter_context(scene_of(harness, folder))
        ring = stack.enter_context(SURFACES[harness](scene))
        ours, bare = [], []
        for number in range(WARM_UP + wakes):
            ours.append(scene.post())
            bare.append(scene.ring(ring))
            say(NAME, f"{harness}, wake {number + 1}: {ours[-1]:.1f}, bare {bare[-1]:.1f} {UNIT}")
    took, reference = median(ours[WARM_UP:]), median(bare[WARM_UP:])
    note = f"reference: the same text by {ABOUT[harness]}; at most half as much again, or {SLACK_MS:g} ms"
    at_most = max(1.5, (reference + SLACK_MS) / reference)
    return figure(f"{NAME}: {harness}, post to model", took, reference, UNIT, note, at_most=at_most)


class Scene:
    """A server, a connected harness with one idle session of @bob's, and @ann, who writes to him."""

    def __init__(self, server: ServerProcess, world: World) -> None:
        self.server, self.world, self.model = server, world, world.model
        self._ann, self._bob = server.add_agent("@ann"), server.add_agent("@bob")
        self._connect()
        self.session = self._open()

    def _connect(self) -> None:
        environ = {**self.world.environ, "WAKELINE_DATA": str(self.server.data)}
        command = [sys.executable, "-m", "wakeline", "connect", self.world.harness, "--agent", "@bob", "--yes"]
        done = subprocess.run(command, env=environ, cwd=self.world.project, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)

    def _open(self) -> HarnessSession:
        session = self.world.open()
        session.terminal.submit("good morning")
        session.terminal.wait_until(
            lambda screen: TRUST in screen or bool(self.model.turns("good morning")), PATIENCE_SECONDS, "nothing came"
        )
        if TRUST in session.terminal.screen:  # Codex may ask about new hooks, when its human first says something
            session.terminal.press("Down", "Enter")
        self.native_id = self.model.wait("good morning", timeout=PATIENCE_SECONDS).session
        self._wait_until_idle()
        return session

    def post(self) -> float:
        """Milliseconds from the first byte of a post to the model's request."""
        body, before, began = f"news {uuid.uuid4().hex}", len(self.model.requests), time.monotonic()
        request = {"to": ["@bob"], "body": body}
        message_id = self.server.call("POST", "/v1/messages", request, token=self._ann).json()["message_id"]
        at = self.model.wait(message_id, session=self.native_id, after=before, timeout=PATIENCE_SECONDS).at
        self._wait_until_idle()
        self.server.call("POST", "/v1/inbox/ack", {"message_ids": [message_id]}, token=self._bob)
        return (at - began) * 1000

    def ring(self, ring: Ring) -> float:
        text, before, began = f"news {uuid.uuid4().hex}", len(self.model.requests), time.monotonic()
        ring(text)
        at = self.model.wait(text, session=self.native_id, after=before, timeout=PATIENCE_SECONDS).at
        self._wait_until_idle()
        return (at - began) * 1000

    def _wait_until_idle(self) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._is_idle():
            if time.monotonic() > until:
                raise RuntimeError("the session did not become idle")
            time.sleep(0.05)
        time.sleep(SETTLE_SECONDS)

    def _is_idle(self) -> bool:
        listed = self.server.call("GET", "/v1/sessions", token=self._bob).json()["sessions"]
        [mine] = [row for row in listed if row["native_id"] == self.native_id] or [{}]
        return bool(mine.get("presence") == "idle")


@contextmanager
def scene_of(harness: str, folder: Path) -> Iterator[Scene]:
    with ModelServer() as model, make_world(_installed(harness), folder / "world", model) as world:
        prepare(world)
        homes = {"CODEX_HOME": str(world.home / ".codex")}
        settings: dict[str, Any] = {**UNLIMITED, "coalesce_seconds": 0, "wake_budget_per_hour": 100_000}
        with ServerProcess(folder / "data", environ=homes, **settings) as server:
            yield Scene(server, world)


def _installed(harness: str) -> Installed:
    tools = Path(sys.prefix)
    found = in_modules(harness, tools / "tools" / "node_modules", tools / "bin" / "node")
    if found is None:
        raise RuntimeError("it is not installed: make tools")
    return found


def prepare(world: World) -> None:
    """Put the bare surface beside ours, where a harness has none of its own."""
    world.extra["BENCH_SURFACE"] = str(world.runtime / "surface.sock")
    if world.harness == "pi":
        _change(world.home / ".pi/agent/settings.json", extensions=[str(ROOT / "bench/surfaces/pi.ts")])
    if world.harness == "opencode":
        plugin = (ROOT / "bench/surfaces/opencode.js").as_uri()
        _change(world.home / ".config/opencode/opencode.json", plugin=[plugin])


def _change(config: Path, **fields: Any) -> None:
    config.write_text(json.dumps({**json.loads(config.read_text()), **fields}))


# -- the surfaces -----------------------------------------------------------------------------------------------------


@contextmanager
def _inbox(scene: Scene) -> Iterator[Ring]:
    world = scene.world
    status = world.status(scene.session.terminal) if isinstance(world, ClaudeCodeWorld) else {}

    def ring(text: str) -> None:
        message = {"role": "user", "content": text}
        guard = {"msgV": 1, "msg_id": str(uuid.uuid4()), "session_id": status["sessionId"], "priority": "next"}
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(status["messagingSocketPath"])
            line.sendall(json.dumps({"type": "user", **guard, "message": message}).encode() + b"\n")

    yield ring


@contextmanager
def _queue(scene: Scene) -> Iterator[Ring]:
    """A connection that stays, on a loop of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    opened = open_app_server(scene.world.home / ".codex", VERSION)
    server = asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result(PATIENCE_SECONDS)

    def ring(text: str) -> None:
        asked = server.ask(
            "thread/queue/add", Queued, threadId=scene.native_id, clientUserMessageId=text, input=as_input(text)
        )
        asyncio.run_coroutine_threadsafe(asked, loop).result(PATIENCE_SECONDS)

    try:
        yield ring
    finally:
        asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop).result(PATIENCE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)


@contextmanager
def _lines(scene: Scene) -> Iterator[Ring]:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(scene.world.extra["BENCH_SURFACE"])

        def ring(text: str) -> None:
            said = text if scene.world.harness == "pi" else json.dumps([scene.native_id, text])
            line.sendall(said.encode() + b"\n")

        yield ring


SURFACES: dict[str, Callable[[Scene], AbstractContextManager[Ring]]] = {
    "claude-code": _inbox,
    "codex": _queue,
    "opencode": _lines,
    "pi": _lines,
}
ABOUT = {
    "claude-code": "the session's inbox socket",
    "codex": "thread/queue/add on an open connection",
    "opencode": "promptAsync from a plugin with a socket",
    "pi": "sendUserMessage from an extension with a socket",
}
