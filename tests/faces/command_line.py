"""The real command line, driven in a subprocess."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

WAKELINE = Path(sys.executable).with_name("wakeline")
PATIENCE = 60


class Result(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    def lines(self) -> list[Any]:
        assert self.code == 0, self.err
        return [json.loads(line) for line in self.out.splitlines()]

    def error(self) -> dict[str, Any]:
        """The envelope of a failure in JSON."""
        envelope: dict[str, Any] = json.loads(self.err.splitlines()[-1])
        return dict(envelope["error"])


class Shell:
    """Somebody at a prompt.  `as_token` is the same prompt in the hands of an agent."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = dict(environ)

    def run(self, *words: str, stdin: str | bytes = "", patience: float = PATIENCE) -> Result:
        done = subprocess.run(
            [WAKELINE, *words],
            check=False,
            env=self.environ,
            input=stdin if isinstance(stdin, bytes) else stdin.encode(),
            capture_output=True,
            timeout=patience,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def json(self, *words: str) -> Any:
        return self.run(*words, "-o", "json").json()

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [WAKELINE, *words], env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def on_terminal(self, *words: str, typed: str = "") -> tuple[int, str]:
        """With a terminal on every end, as a person has it: the exit code and what the screen shows."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [WAKELINE, *words], env=self.environ, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        ) as process:
            os.close(theirs)
            os.write(ours, typed.encode())
            screen = _read_all(ours)
            code = process.wait(PATIENCE)
        os.close(ours)
        return code, screen.decode()

    def with_environ(self, **extra: str) -> Shell:
        return Shell({**self.environ, **extra})

    def as_token(self, token: str) -> Shell:
        return self.with_environ(WAKELINE_TOKEN=token)

    def new_agent(self, *options: str) -> tuple[str, Shell]:
        """A fresh agent, and its shell."""
        handle = f"@a{uuid.uuid4().hex[:10]}"
        added = self.json("agent", "add", handle, *options)
        return handle, self.as_token(added["token"])


def _read_all(descriptor: int) -> bytes:
    """Until the other end is closed, which a terminal reports as an error."""
    data = b""
    try:
        while chunk := os.read(descriptor, 65_536):
            data += chunk
    except OSError:
        return data
    return data
