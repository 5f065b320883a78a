"""Run a real `wakeline up` as a child process, talk to it, stop it or kill it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

COMMAND = (sys.executable, "-m", "wakeline", "up")
READY = "Wakeline is ready: "
START_SECONDS = 60
STOP_SECONDS = 30


class Answer:
    """Status, headers and decoded body of one exchange."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """The error code, if this is an error."""
        document = self.json()
        return document["error"]["code"] if isinstance(document, dict) and "error" in document else None


class ServerProcess:
    def __init__(
        self,
        data: Path,
        *,
        database: str = "",
        environ: Mapping[str, str] | None = None,
        command: Sequence[str] = COMMAND,
        **settings: Any,
    ) -> None:
        self.data = data
        self.database = database
        self._command = command
        self._settings = settings
        self._extra = dict(environ or {})
        self._process: subprocess.Popen[str] | None = None
        self._listener: threading.Thread | None = None
        self._output: list[str] = []
        self.url = ""

    @property
    def environ(self) -> dict[str, str]:
        """A clean environment in which the command line is the operator of this server."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "WAKELINE_DATA": str(self.data), **self._extra}

    @property
    def socket(self) -> Path:
        record = self.data / "run" / "socket"
        return Path(record.read_text().strip()) if record.exists() else self.data / "run" / "wakeline.sock"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def writer_pid(self) -> int:
        """The process that writes its SQLite database."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        [pid] = [pid for pid in children if b"wakeline.store.sqlite.apart" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return int(pid)

    @property
    def output(self) -> str:
        return "".join(self._output)

    def start(self) -> Self:
        flags = {"port": 0, "database": self.database, **self._settings}
        environ = {
            **self.environ,
            **{f"WAKELINE_{name.upper()}": str(value) for name, value in flags.items() if value != ""},
        }
        self.url = ""
        self._process = subprocess.Popen(
            self._command,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        ready = threading.Event()
        self._listener = threading.Thread(target=self._listen, args=(self._process, ready), daemon=True)
        self._listener.start()
        if not ready.wait(START_SECONDS) or not self.url:
            self.kill()
            raise RuntimeError(f"the server did not start:\n{self.output}")
        return self

    def _listen(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._output.append(line)
            if line.startswith(READY):
                self.url = line.removeprefix(READY).strip()
                ready.set()
        ready.set()

    def stop(self) -> int:
        """Ask it to stop, and answer its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._wait()

    def kill(self) -> None:
        """As if the power failed for this process."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)  # does nothing if it has ended
            self._wait()

    def _wait(self) -> int:
        assert self._process is not None
        code = self._process.wait(STOP_SECONDS)
        if self._listener is not None:
            self._listener.join()  # before its end of the pipe is closed
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop()
        elif self._process is not None:
            self._wait()  # it has ended by itself, or somebody ended it

    # -- talking to it ------------------------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One exchange: with a token over TCP, without one as the operator over the Unix socket."""
        given = dict(headers or {})
        if token is not None:
            given["Authorization"] = f"Bearer {token}"
        connection = self.connect() if token is not None else self.connect_unix()
        payload = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, payload, given)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def connect(self) -> http.client.HTTPConnection:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return http.client.HTTPConnection(host, int(port), timeout=60)

    def connect_unix(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("localhost", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(60)
        connection.sock.connect(str(self.socket))
        return connection

    def add_agent(self, handle: str, *roles: str) -> str:
        """Add an agent and answer its token."""
        answer = self.call("POST", "/v1/agents", {"handle": handle, "roles": list(roles)})
        assert answer.status == HTTPStatus.CREATED, answer.body
        token: str = answer.json()["token"]
        return token
