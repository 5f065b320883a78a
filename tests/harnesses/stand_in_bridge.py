"""The bridge's end of the seat protocol, where a test must ring at a moment that a planner would not."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

WAIT_SECONDS = 90.0

Line = dict[str, Any]


class StandInBridge:
    """What all companions said, in order, each line with the `native_id` of its session; and a way to ring them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.announcement: Line = {"text": None, "marks": []}
        self.handover: str | None = None
        self.silent = False  # turns that begin are not answered
        self.greeting: str | None = None  # the mark of a doorbell that is rung as soon as a session has a seat
        self._said: list[Line] = []
        self._seats: dict[str, socket.socket] = {}
        self._changed = threading.Condition()
        self._listener: socket.socket | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """As if the bridge had died: nobody listens, and every connection is gone."""
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
            self.path.unlink()
        for seat in self._seats.values():
            with contextlib.suppress(OSError):  # its companion has gone
                seat.shutdown(socket.SHUT_RDWR)
        self._seats.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        native_id = ""
        with connection, connection.makefile("rb") as lines:
            for text in lines:
                line = json.loads(text)
                if line["type"] == "hello":
                    native_id = line["native_id"]
                    self._seats[native_id] = connection
                    _tell(connection, type="welcome", session_id="S", handle="@bob", doorbell=self.handover)
                    if self.greeting is not None:
                        _tell(connection, **_ring(self.greeting))
                if line["type"] == "turn_started" and not self.silent:
                    _tell(connection, type="announce", **self.announcement)
                with self._changed:
                    self._said.append({**line, "native_id": native_id})
                    self._changed.notify_all()

    # -- talking ------------------------------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        with self._changed:
            return len(self._said)

    def position(self, kind: str) -> int:
        """Where the first line of this kind stands."""
        with self._changed:
            return next(at for at, line in enumerate(self._said) if line["type"] == kind)

    def ring(self, native_id: str, mark: str) -> Line:
        """Ring, and answer what came of it."""
        after = self.length
        _tell(self._seats[native_id], **_ring(mark))
        return self.wait_for("rung", after, id=mark)

    def withdraw(self, native_id: str, mark: str) -> bool:
        """Call a doorbell off, and answer whether it was kept until now."""
        after = self.length
        _tell(self._seats[native_id], type="withdraw", mark=mark)
        return bool(self.wait_for("withdrawn", after, mark=mark)["kept"])

    def wait_for(self, kind: str, after: int = 0, **fields: Any) -> Line:
        return self.wait(lambda line: line["type"] == kind and line.items() >= fields.items(), after)

    def wait(self, wanted: Callable[[Line], bool], after: int = 0) -> Line:
        found: list[Line] = []

        def look() -> bool:
            found.extend(line for line in self._said[after:] if wanted(line))
            return bool(found)

        with self._changed:
            assert self._changed.wait_for(look, WAIT_SECONDS), self._said[-10:]
        return found[0]


def _ring(mark: str) -> Line:
    text = f"Wakeline: you have 1 unread message. ({mark})"
    return {"type": "ring", "id": mark, "mark": mark, "text": text}


def _tell(connection: socket.socket, **line: Any) -> None:
    connection.sendall(json.dumps(line).encode() + b"\n")
