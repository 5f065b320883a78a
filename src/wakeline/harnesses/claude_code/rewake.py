"""The bells of Claude Code before it had an inbox socket: a hook that waits, and a file that is watched.

An `asyncRewake` hook that ends with code 2 starts a turn in an idle session, with what it wrote to stderr.  The first
bell is such a hook, started by SessionStart and every Stop, that waits for the companion to call.  Where none waits,
the companion writes to a file that SessionStart had put under watch, and the hook of that change passes the text on.
The hooks themselves are in `hook`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from wakeline.harnesses.claude_code.bell import ACCEPTED, Verdict
from wakeline.harnesses.claude_code.meeting import Meeting, read
from wakeline.wire.sessions import WakeMode

ARMED_SECONDS = 3.0  # a hook that Stop has just started needs a moment to be there
HEARD_SECONDS = 6.0  # Claude Code reports a change after half a second of quiet, and later on a busy machine
LOOK_SECONDS = 0.1


class Waiter:
    transport = "async-rewake"
    wake_mode: WakeMode = "native-push"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._watched = Watched(folder)

    async def ring(self, text: str, native_id: str) -> Verdict:
        meeting = Meeting(self._folder, native_id)
        for _ in range(int(ARMED_SECONDS / LOOK_SECONDS)):
            try:
                reader, writer = await asyncio.open_unix_connection(meeting.socket)
            except OSError:
                await asyncio.sleep(LOOK_SECONDS)
            else:
                return await _hand_over(reader, writer, text)
        return await self._watched.ring(text, native_id)


async def _hand_over(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str) -> Verdict:
    try:
        writer.write(text.encode())
        writer.write_eof()
        async with asyncio.timeout(HEARD_SECONDS):
            heard = await reader.read()
    except (OSError, TimeoutError):
        heard = b""
    finally:
        writer.close()
    return ACCEPTED if heard else Verdict("unknown", "no_confirmation", "the waiting hook did not confirm")


class Watched:
    transport = "watch-paths"
    wake_mode: WakeMode = "file-watch"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def ring(self, text: str, native_id: str) -> Verdict:
        meeting = Meeting(self._folder, native_id)
        if not meeting.signal.exists():
            return Verdict("failed", "not_armed", "no hook waits, and no file is watched")
        try:
            meeting.signal.write_text(text)
        except OSError as error:
            return Verdict("failed", "not_armed", str(error))
        for _ in range(int(HEARD_SECONDS / LOOK_SECONDS)):
            if read(meeting.heard) == text:
                return ACCEPTED
            await asyncio.sleep(LOOK_SECONDS)
        return Verdict("unknown", "no_confirmation", "the change was not noticed in time")
