"""A real `wakeline bridge` as a child process, against a server elsewhere."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from tests.bridge.household import House

HOST = "buildhost"
READY = "Wakeline's bridge is ready"


class Alone:
    """The real command, in its own data directory."""

    def __init__(self, house: House, data: Path, token: str) -> None:
        self.data = data
        data.mkdir(parents=True, exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        self._environ = {**kept, "WAKELINE_DATA": str(data), "WAKELINE_TOKEN": token}
        self._command = [sys.executable, "-m", "wakeline", "bridge", "--server", house.server.url]
        self.process: subprocess.Popen[str] | None = None
        self.output: list[str] = []

    def start(self, *options: str) -> Alone:
        self.process = subprocess.Popen(
            [*self._command, *options],
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        ready = threading.Event()
        threading.Thread(target=self._listen, args=(self.process, ready), daemon=True).start()
        assert ready.wait(60)
        return self

    def _listen(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self.output.append(line)
                if line.startswith(READY):
                    ready.set()
        ready.set()

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.wait()


def free_port() -> int:
    """A server that comes back must be found where it was."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def new_token(house: House) -> str:
    return (await house.human.create_token("@system", bridge=HOST)).token
