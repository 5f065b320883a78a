"""A stand-in for the bridge's end of the seat protocol, where a test must ring at a moment that a planner would not."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

WAIT_SECONDS = 30.0


class Companion:
    """One connection: what it said, and a way to ring it."""

    def __init__(
        self, connection: socket.socket, announcements: list[dict[str, Any]], introduced: Callable[[Companion], None]
    ) -> None:
        self._connection = connection
        self._introduced = introduced
        self._announcements = announcements
        self._changed = threading.Condition()
        self._said: list[dict[str, Any]] = []

    def serve(self) -> None:
        with self._connection, self._connection.makefile("rb") as lines:
            for line in lines:
                self._hear(json.loads(line))
        self._hear({"type": "closed"})

    def _hear(self, line: dict[str, Any]) -> None:
        if line["type"] == "hello":
            self.tell(type="welcome", session_id="S", handle="@bob", doorbell=None)
        if line["type"] == "turn_started":
            nothing: dict[str, Any] = {"text": None, "marks": []}
            self.tell(type="announce", **(self._announcements.pop(0) if self._announcements else nothing))
        with self._changed:
            self._said.append(line)
            self._changed.notify_all()
        if line["type"] == "hello":
            self._introduced(self)

    def tell(self, **line: Any) -> None:
        self._connection.sendall(json.dumps(line).encode() + b"\n")

    def ring(self, mark: str, text: str = "there is mail") -> dict[str, Any]:
        """Ring, and answer what came of it."""
        self.tell(type="ring", id=mark, mark=mark, text=f"Wakeline: {text} {mark}", policy="immediate")
        return self.wait(lambda line: line["type"] == "rung" and line["id"] == mark)

    @property
    def said(self) -> list[dict[str, Any]]:
        with self._changed:
            return list(self._said)

    def wait(self, wanted: Callable[[dict[str, Any]], bool], after: int = 0) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found.extend(line for line in self._said[after:] if wanted(line))
            return bool(found)

        with self._changed:
            assert self._changed.wait_for(look, WAIT_SECONDS), self._said[-10:]
        return found[0]

    def wait_for(self, kind: str, after: int = 0, **fields: Any) -> dict[str, Any]:
        return self.wait(lambda line: line["type"] == kind and line.items() >= fields.items(), after)


class Switchboard:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.announcements: list[dict[str, Any]] = []
        self._companions: list[Companion] = []
        self._changed = threading.Condition()
        self._listener = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> Self:
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            companion = Companion(connection, self.announcements, self._introduced)
            threading.Thread(target=companion.serve, daemon=True).start()

    def _introduced(self, companion: Companion) -> None:
        with self._changed:
            self._companions.append(companion)
            self._changed.notify_all()

    def companion(self, pid: int) -> Companion:
        """Whoever speaks for the harness of this process."""
        found: list[Companion] = []

        def look() -> bool:
            found.extend(one for one in self._companions if one.said and one.said[0]["pid"] == pid)
            return bool(found)

        with self._changed:
            assert self._changed.wait_for(look, WAIT_SECONDS), "no companion came"
        return found[-1]
