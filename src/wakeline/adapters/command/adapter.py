"""Ring by a command that the operator gave for this agent: an argument list, no shell, bounded in time.

    D0 to D8: unproven.  What the command does, nobody here has seen; what it says came of it is believed as a harness's
    acceptance is, which is `triggered` and no more.

Nobody can see from here how such a session is.  It said so itself, once, and that would be too old after minutes; so as
long as the operator's command is there, and the session's process if it named one, it is told to be there still.

A command that was started and did not end in time may have done its work: that is `Uncertain`, and its processes are
ended.  One that could not be started has done nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from wakeline.adapters.command.book import EXITS, Order, Word
from wakeline.adapters.harness import ANY, Report, Sessions
from wakeline.core.observation import Gone, Still
from wakeline.core.parcel import Absent, Accepted, Failed, Parcel, Refused, Result, Uncertain, bounded
from wakeline.core.seat import COMMAND
from wakeline.core.session import Liveness, Sighting, WakeMode, liveness

TRANSPORT = "command"
OUTPUT_BYTES = 4_096
END_SECONDS = 2.0
LOOK_SECONDS = 30.0
_ANSWERS: dict[str, Word] = {"accepted": "accepted", "refused": "refused", "failed": "failed", "absent": "absent"}
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY")


class Orders(Protocol):
    """The command of each agent, by its handle."""

    def get(self, handle: str, /) -> Order | None: ...


class Commands:
    harness = ANY
    transport = TRANSPORT
    wake_mode = WakeMode.NATIVE_PUSH
    capabilities: tuple[str, ...] = (COMMAND,)
    levels: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        orders: Orders,
        environ: Mapping[str, str],
        monotonic: Callable[[], float],
        look: Callable[[int], Sighting],
    ) -> None:
        self._orders = orders
        self._look = look
        self._environ = {name: environ[name] for name in KEPT if name in environ}
        self._monotonic = monotonic
        self._rang: dict[tuple[str, str], float] = {}  # by application or session: when the last one ended

    async def deliver(self, parcel: Parcel) -> Result:
        order, session = self._orders.get(parcel.handle), parcel.session
        if order is None or session is None:
            return Absent()
        fields = fields_of(parcel)
        if any(value.startswith("-") for name, value in fields.items() if name != "text"):
            return Failed("unsafe_word", "A name that is filled in looks like an option.", retryable=False)
        place = ("session", session.session_id) if order.application is None else ("application", order.application)
        if order.every_seconds and self._monotonic() < self._rang.get(place, -math.inf) + order.every_seconds:
            return Refused(None, "too_soon", f"This command rings at most every {order.every_seconds:g} s.")
        self._rang[place] = math.inf
        try:
            return await self._run(order, [fill(word, fields) for word in order.argv], parcel)
        finally:
            self._rang[place] = self._monotonic()

    async def watch(self, sessions: Sessions, report: Report) -> None:
        while True:
            for session in sessions():
                if session.transport != TRANSPORT or self._orders.get(session.handle) is None:
                    continue
                if liveness(session, None if session.pid is None else self._look(session.pid)) is Liveness.DEAD:
                    await report(Gone(session.session_id, "process_ended"))
                else:
                    await report(Still(session.session_id))
            await asyncio.sleep(LOOK_SECONDS)

    async def _run(self, order: Order, argv: list[str], parcel: Parcel) -> Result:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE if order.stdin else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=self._environ,
                start_new_session=True,
            )
        except OSError as error:
            return Failed("not_started", bounded(f"{argv[0]}: {error.strerror}"), retryable=False)
        patience = min(order.timeout_seconds, parcel.timeout.total_seconds())
        try:
            async with asyncio.timeout(patience):
                said = await _converse(process, parcel.text.encode() if order.stdin else None)
        except TimeoutError:
            return Uncertain("timeout", f"{argv[0]} did not end within {patience:g} s.")
        finally:
            await _end(process)
        return _result(order, process.returncode, said)


async def _converse(process: asyncio.subprocess.Process, text: bytes | None) -> str:
    """What it said, as far as we keep it.  It may say more, and is not held up by us."""
    if process.stdin is not None and text is not None:
        with contextlib.suppress(ConnectionError):
            process.stdin.write(text)
            await process.stdin.drain()
        process.stdin.close()
    kept = b""
    while process.stdout is not None and (some := await process.stdout.read(OUTPUT_BYTES)):
        kept = (kept + some)[:OUTPUT_BYTES]
    await process.wait()
    return kept.decode("utf-8", "replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    """With whatever it has started, and not left behind as a zombie or as an open pipe."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):  # what left the group may hold the pipe for as long as it likes
            async with asyncio.timeout(END_SECONDS):
                await process.communicate()


def _result(order: Order, code: int | None, said: str) -> Result:
    if code is None or code < 0:
        return Uncertain("killed", bounded(said))
    if order.answers:
        word = _ANSWERS.get(next(iter(said.split()), "").lower(), "unknown") if code == 0 else "unknown"
    else:
        word = {**EXITS, **order.exits}.get(str(code), "failed")
    detail = bounded(said)
    match word:
        case "accepted":
            return Accepted(None, detail)
        case "refused":
            return Refused(None, "command_refused", detail)
        case "absent":
            return Absent()
        case "failed":
            return Failed(f"exit_{code}", detail)
        case "unknown":
            return Uncertain("command_unsure", detail)


def fields_of(parcel: Parcel) -> dict[str, str]:
    session = parcel.session
    return {
        "text": parcel.text,
        "mark": parcel.mark,
        "handle": parcel.handle,
        "delivery_id": parcel.delivery_id,
        "session_id": "" if session is None else session.session_id,
        "native_id": "" if session is None else session.native_id or "",
        "cwd": "" if session is None else session.cwd or "",
    }


def fill(word: str, fields: Mapping[str, str]) -> str:
    """A word with its names filled in, once: what is filled in is not looked at again."""
    for name, value in fields.items():
        if word == f"{{{name}}}":
            return value
    head, sep, rest = word.partition("{")
    name, end, tail = rest.partition("}")
    if not sep or not end:
        return word
    return head + fields.get(name, f"{{{name}}}") + fill(tail, fields)
