"""A real `opencode serve` in a throwaway world, and the few calls of its API that a human's program would make."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import urllib.request
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from wakeline.testing.worlds import World

PASSWORD = "a password"  # noqa: S105 - of a throwaway server
_ADDRESS = re.compile(r"listening on (http://\S+)")


class OpencodeServe:
    def __init__(self, world: World, *, port: int = 0) -> None:
        self._world = world
        self._port = port
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> Self:
        self._process = subprocess.Popen(
            [*self._world.command, "serve", "--port", str(self._port)],
            env={**self._world.environ, "OPENCODE_SERVER_PASSWORD": PASSWORD},
            cwd=self._world.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line)
            found = _ADDRESS.search(line)
            if found:
                self.url = found.group(1)
                self._port = int(self.url.rpartition(":")[2])
                return self
        raise RuntimeError(f"opencode serve did not start:\n{''.join(said)}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        credentials = base64.b64encode(f"opencode:{PASSWORD}".encode()).decode()
        request = urllib.request.Request(  # noqa: S310 - an address of our own
            f"{self.url}{path}?directory={quote(str(self._world.project))}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Basic {credentials}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - on loopback
            content = answer.read()
        return json.loads(content) if content else None

    def new_session(self) -> str:
        session: str = self.call("POST", "/session", {})["id"]
        return session

    def prompt(self, session: str, text: str) -> Any:
        return self.call("POST", f"/session/{session}/prompt_async", {"parts": [{"type": "text", "text": text}]})

    def answer(self, reply: str) -> None:
        """Answer the one permission that is asked for."""
        [asked] = self.call("GET", "/permission")
        self.call("POST", f"/permission/{asked['id']}/reply", {"reply": reply})

    def abort(self, session: str) -> None:
        self.call("POST", f"/session/{session}/abort")
