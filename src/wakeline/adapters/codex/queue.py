"""A Codex terminal that runs without the app server (`codex --no-daemon`): `codex queue` leaves the doorbell for it.

The terminal looks into its queue every few seconds.  Nothing here can see how it is; its hooks tell that, and that our
mark was in a prompt.  What we see is whether its process is still there.

Which process that is, is the session's own word, and we run the program of that process: so it must be a Codex, and of
our own user.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from wakeline.adapters.codex import commands
from wakeline.adapters.codex.adapter import HARNESS
from wakeline.adapters.harness import Report, Sessions
from wakeline.core.observation import Gone, Noticed
from wakeline.core.parcel import Absent, Accepted, Failed, Parcel, Refused, Result, Uncertain, bounded
from wakeline.core.seat import QUEUES
from wakeline.core.session import Liveness, Presence, Session, Sighting, WakeMode, liveness

TRANSPORT = "queue-command"
# Longer than the ten seconds after which a terminal looks into its queue.  A bridge knows no session when it begins,
# so it first tells that one is idle when a doorbell of the last bridge would have begun a turn.  Only then may what was
# left unsure ring once more.
LOOK_SECONDS = 30.0


class CodexQueue:
    harness = HARNESS
    transport = TRANSPORT
    wake_mode = WakeMode.FILE_WATCH
    capabilities: tuple[str, ...] = (QUEUES,)
    levels: Mapping[str, str] = MappingProxyType(
        {**dict.fromkeys(("D0", "D1", "D2", "D3", "D4", "D5", "D6"), "pass"), "D7": "partial", "D8": "partial"}
    )

    def __init__(self, look: Callable[[int], Sighting]) -> None:
        self._look = look

    async def deliver(self, parcel: Parcel) -> Result:
        session = parcel.session
        if session is None or session.native_id is None or self._liveness(session) is not Liveness.LIVE:
            return Absent()
        if not is_codex(session.pid):
            return Refused(None, "process_not_codex", "The process that the session names is no Codex of this user.")
        if parcel.attempt > 1:  # the queue takes the same text twice, and cannot be asked
            return Uncertain("tried_before", "An earlier attempt may have left it in the queue.")
        return await self._run(session, parcel)

    async def _run(self, session: Session, parcel: Parcel) -> Result:
        command = commands.queue(session.native_id or "", parcel.text, _program(session.pid))
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=_environ(session.pid),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return Failed("no_command", bounded(str(error)))
        return await _outcome(process, parcel.timeout.total_seconds())

    def _liveness(self, session: Session) -> Liveness:
        return liveness(session, None if session.pid is None else self._look(session.pid))

    async def watch(self, sessions: Sessions, report: Report) -> None:
        while True:
            for session in sessions():
                if session.harness != HARNESS or session.transport != TRANSPORT:
                    continue
                if self._liveness(session) is Liveness.DEAD:
                    await report(Gone(session.session_id, "process_ended"))
                else:
                    presence = Presence(session.presence)
                    await report(Noticed(session.session_id, presence, session.active_turn_id, "process"))
            await asyncio.sleep(LOOK_SECONDS)


async def _outcome(process: asyncio.subprocess.Process, seconds: float) -> Result:
    try:
        async with asyncio.timeout(seconds):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return Uncertain("timeout", f"'codex queue' did not end within {seconds:g} s.")
    detail = bounded(said.decode("utf-8", "replace").strip())
    return Accepted(None, detail or "queued") if process.returncode == 0 else Failed("rejected", detail)


def is_codex(pid: int | None) -> bool:
    """Where the system does not tell of processes, what is run is the user's own `codex`, whatever runs there."""
    process = Path(f"/proc/{pid}")
    try:
        return process.stat().st_uid == os.geteuid() and (process / "exe").readlink().name.startswith("codex")
    except OSError:
        return not Path("/proc/self").exists()


def _program(pid: int | None) -> Sequence[str]:
    """The very program that runs the terminal, where the system tells which."""
    try:
        return (str(Path(f"/proc/{pid}/exe").readlink()),)
    except OSError:
        return commands.CODEX


def _environ(pid: int | None) -> dict[str, str]:
    """Ours, in the home that the terminal has."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        entries = []
    named = dict(entry.decode("utf-8", "surrogateescape").partition("=")[::2] for entry in entries if b"=" in entry)
    kept = {name: value for name, value in named.items() if name in ("HOME", "CODEX_HOME")}
    return {**os.environ, **kept}
