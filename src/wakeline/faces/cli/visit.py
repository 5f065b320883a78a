"""A visit to the bridge of this host: a hook's command says something of a session, hears an answer, and goes.

The seat protocol over a plain socket, because a hook has no time to import more.
"""

# pathlib takes longer to import than a command may.
# ruff: noqa: PTH110, PTH118, PTH123

from __future__ import annotations

import _socket
import json
import os

from wakeline.endpoint import Sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from wakeline.faces.cli.codex_process import Codex
    from wakeline.faces.cli.context import Context

PROTOCOL = 1
PATIENCE_SECONDS = 4.0
CHUNK = 65_536


class Visit:
    """Entering raises OSError when there is no bridge, or when it does not want us."""

    def __init__(self, context: Context, facts: dict[str, Any], codex: Codex) -> None:
        self._path = find_seats(context)
        self._hello = {
            "protocol": PROTOCOL,
            "token": context.endpoint().token,
            "visit": True,
            "resumable": True,
            **facts,
            **codex.hello(),
        }
        self._connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._heard = b""

    def __enter__(self) -> Self:
        self._connection.settimeout(PATIENCE_SECONDS)
        self._connection.connect(self._path)
        self.say("hello", **self._hello)
        self.hear("welcome")
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def say(self, kind: str, **fields: Any) -> None:
        line = {"type": kind, **{name: value for name, value in fields.items() if value is not None}}
        self._connection.sendall(json.dumps(line).encode() + b"\n")

    def hear(self, kind: str) -> dict[str, Any]:
        """The next line of this kind."""
        while True:
            line: dict[str, Any] = json.loads(self._line())
            if line.get("type") == kind:
                return line
            if line.get("type") == "refused":
                raise OSError(line["error"].get("message"))

    def _line(self) -> bytes:
        while b"\n" not in self._heard:
            more = self._connection.recv(CHUNK)
            if not more:
                raise ConnectionResetError("the bridge went away")
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line


def find_seats(context: Context) -> str:
    """Where the bridge of this host listens, by the same rule as the bridge's."""
    named = context.environ.get("WAKELINE_SEATS")
    if named:
        return named
    data = Sources(context.flags, context.environ).data
    record = os.path.join(data, "seats")
    if not os.path.exists(record):
        return os.path.join(data, "seats.sock")
    with open(record, encoding="utf-8") as file:
        return file.read().strip()
