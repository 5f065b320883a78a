"""A real server whose agent @bob has fallen silent, and a program of the operator's that can bring him back."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.faces.http_calls import Actor, new_agent, operator
from wakeline.runtime.processes import host_name
from wakeline.testing.server import ServerProcess

PATIENCE = 60.0
# Everything that takes minutes with people takes seconds here.
SWIFT: dict[str, Any] = {
    "dormant_seconds": 1,
    "activation_lag_seconds": 1,
    "activation_backoff_seconds": 1,
    "supervisor_seconds": 1,
    "coalesce_seconds": 0,
}

PROGRAM = """\
import http.client, json, os, signal, socket, subprocess, sys, time
folder, mode, prompt, session = sys.argv[1:5]
with open(f"{folder}/ledger", "a") as ledger:
    ledger.write(json.dumps({"pid": os.getpid(), "prompt": prompt, "session": session,
                             "environ": dict(os.environ), "cwd": os.getcwd()}) + "\\n")
if mode == "crash":
    print("the last words")
    sys.exit(7)
if mode == "ignore":
    sys.exit(0)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode in ("linger", "detach"):
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(sleep, start_new_session=mode == "detach")
    with open(f"{folder}/children", "a") as children:
        children.write(f"{child.pid}\\n")
if mode in ("linger", "detach", "stubborn", "quit"):
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.05)
if mode == "quit":
    print("the last words")
    sys.exit(0)
def call(method, path, body=None):
    while True:
        try:
            line = http.client.HTTPConnection("localhost", timeout=20)
            line.sock = socket.socket(socket.AF_UNIX)
            line.sock.connect(f"{folder}/data/run/wakeline.sock")
            token = open(f"{folder}/token").read()
            line.request(method, path, None if body is None else json.dumps(body), {"Authorization": f"Bearer {token}"})
            return json.loads(line.getresponse().read())
        except OSError:
            time.sleep(0.1)
found = [one["message_id"] for one in call("GET", "/v1/inbox")["messages"]]
call("POST", "/v1/inbox/ack", {"message_ids": found})
print("read", len(found))
"""


def eventually(look: Callable[[], Any], what: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < until, what()
        time.sleep(0.05)
    return found


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


class Ward:
    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.human = operator(server)
        self.bob, self.ann = new_agent(server, "bob"), new_agent(server, "ann")
        (folder / "token").write_text(self.bob.token or "")
        (folder / "program.py").write_text(PROGRAM)

    def fall_silent(self, actor: Actor | None = None, **said: Any) -> str:
        """A session that could be resumed, and of which nothing more is heard."""
        fields = {"harness": "tool", "native_id": "native-1", "host": host_name(), "resumable": True, **said}
        session_id: str = (actor or self.bob).post("/v1/sessions/heartbeat", **fields)["session_id"]
        return session_id

    def allow(self, allow: str, mode: str = "read", **fields: Any) -> Any:
        program = [sys.executable, str(self.folder / "program.py"), str(self.folder), mode, "{prompt}", "{session}"]
        path = f"/v1/agents/{self.bob.handle}/activation"
        return self.human.do("PUT", path, allow=allow, command=program, **{"max_per_hour": 12, **fields})

    def send(self, body: str = "The soup is ready.", **fields: Any) -> Any:
        return self.ann.send(self.bob, body=body, **fields)

    # -- what came of it ----------------------------------------------------------------------------------------------

    def listed(self) -> Any:
        return self.human.get("/v1/activations", handle=self.bob.handle)

    def attempts(self, *ways: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.listed()["activations"]
        return [row for row in reversed(rows) if not ways or row["way"] in ways]

    def wait_result(self, result: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            return next((row for row in self.attempts() if row["result"] == result), None)

        row = eventually(look, self.shown)
        found: dict[str, Any] = self.human.get(f"/v1/activations/{row['activation_id']}")
        return found

    def shown(self) -> list[Any]:
        """Every attempt with what its process printed, for when a test fails."""
        return [self.human.get(f"/v1/activations/{row['activation_id']}") for row in self.attempts()]

    def wait_state(self, state: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            return next((row for row in self.attempts("resume", "spawn") if row["state"] == state), None)

        found: dict[str, Any] = eventually(look, lambda: (self.listed(), self.server.output))
        return found

    def wait_reason(self, reason: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            return next((row for row in self.listed()["dormant"] if row["reason"] == reason), None)

        found: dict[str, Any] = eventually(look, lambda: (self.listed(), self.server.output))
        return found

    @property
    def ledger(self) -> list[str]:
        """One line for each process that was ever started."""
        path = self.folder / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    def children(self) -> list[int]:
        path = self.folder / "children"
        return [int(line) for line in path.read_text().split()] if path.exists() else []


@contextmanager
def ward_in(folder: Path, **settings: Any) -> Iterator[Ward]:
    environ = settings.pop("environ", {})
    with ServerProcess(folder / "data", environ=environ, **{**SWIFT, **settings}) as server:
        try:
            yield Ward(server, folder)
        finally:
            end_all(folder)


def end_all(folder: Path) -> None:
    """What a test that failed has left running: each keeper ends its own."""
    for path in folder.glob("*/activations/*/keeper"):
        with suppress(OSError, KeyError, TypeError, ValueError):
            os.kill(json.loads(path.read_text())["pid"], signal.SIGTERM)
