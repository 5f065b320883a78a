"""The hooks of the two older bells: wait for the companion's call, put a file under watch, pass a change on.

A hook's code 2 wakes the model, and `wakeline` itself may end with 2.  So a doorbell ends with a code of its own, which
only the plugin's script turns into 2.
"""

from __future__ import annotations

import fcntl
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from wakeline.harnesses.claude_code.meeting import Meeting, read
from wakeline.harnesses.claude_code.registry import holds, process_of

RANG = 40
LOOK_SECONDS = 2.0
PATIENCE = 15  # looks, until a session that is just starting has registered itself


class Hook(msgspec.Struct, frozen=True):
    """As much as we go by of what Claude Code tells a hook."""

    session_id: str


class Host:
    """The process that a hook waits for.  A hook may outlive it, and would then take another's doorbell."""

    def __init__(self, sessions: Path, native_id: str) -> None:
        self._sessions, self._native_id = sessions, native_id
        self._pid: int | None = None
        self._looks = 0

    def is_there(self) -> bool:
        self._looks += 1
        self._pid = self._pid or process_of(self._sessions, self._native_id)
        if self._pid is None:
            return self._looks <= PATIENCE
        return holds(self._sessions, self._pid, self._native_id)


def wait(folder: Path, native_id: str, host: Host) -> str | None:
    """Wait for the companion's call: the text to wake with, or None when another waits or the session is gone."""
    meeting = Meeting(folder, native_id)
    with _alone(meeting.lock) as alone:
        if not alone:
            return None
        meeting.socket.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(meeting.socket))
            listener.listen(1)
            listener.settimeout(LOOK_SECONDS)
            try:
                return _listen(listener, host)
            finally:
                meeting.socket.unlink(missing_ok=True)


def _listen(listener: socket.socket, host: Host) -> str | None:
    while host.is_there():
        try:
            caller, _ = listener.accept()
        except TimeoutError:
            continue
        with caller, caller.makefile("rb") as stream:
            text = stream.read().decode("utf-8", "replace")
            if text:
                caller.sendall(b"heard\n")
                return text
    return None


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def arm(folder: Path, native_id: str) -> bytes:
    """What SessionStart answers to have the session's file watched."""
    meeting = Meeting(folder, native_id)
    meeting.signal.touch()
    watch = {"hookEventName": "SessionStart", "watchPaths": [str(meeting.signal)]}
    return msgspec.json.encode({"hookSpecificOutput": watch})


def changed(folder: Path, native_id: str) -> str | None:
    """The text to wake with, unless this change was passed on before."""
    meeting = Meeting(folder, native_id)
    text = read(meeting.signal)
    if not text or text == read(meeting.heard):
        return None
    meeting.heard.write_text(text)
    return text


def given(stdin: bytes) -> Hook:
    """What Claude Code tells a hook."""
    return msgspec.json.decode(stdin, type=Hook)


def ring_out(text: str | None) -> int:
    if text is None:
        return 0
    sys.stderr.write(text)
    return RANG
