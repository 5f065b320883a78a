"""Codex from 0.166: the app server that plain `codex` starts and that its terminals attach to.

A doorbell goes into the thread's own queue: an idle thread starts a turn with it at once, an active one takes it when
its turn is over, and one whose human pressed Esc keeps it until that human speaks again.  The queue is on disk and
survives the app server.  Codex does not recognise a doubled id, so we look for ours first, in the queue and the turns.
What still waits there when its mail was read is taken out again.

What we never do: start a turn (it would cut off one that runs), answer or dismiss what a human is asked, start a paused
queue, load a thread, or send any setting with a message (Codex would keep it).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType

from wakeline.adapters.codex import threads
from wakeline.adapters.codex.messages import (
    NOT_LOADED,
    Submission,
    Thread,
    Turn,
    marks_of,
    ours,
    presence_of,
    running_turn,
)
from wakeline.adapters.codex.server import AppServer, Refusal, Unanswered, Unreachable, open_app_server
from wakeline.adapters.codex.watch import Enrol, Watch
from wakeline.adapters.harness import Report, Sessions
from wakeline.core.observation import Gone
from wakeline.core.parcel import Absent, Accepted, Failed, Parcel, Result, Uncertain, bounded
from wakeline.core.seat import QUEUES
from wakeline.core.session import Presence, Session, WakeMode
from wakeline.wire.seat import PROTOCOL, Hello

HARNESS = "codex"
TRANSPORT = "app-server"
MISSING_SECONDS = 20.0
REMEMBERED_MARKS = 1_000


class Codex:
    """`homes`: the directories that Codex is asked to live in (`CODEX_HOME`).  `steer`: an `immediate` doorbell goes
    into a running turn instead of behind it, which throws away what the model was just saying.
    """

    harness = HARNESS
    transport = TRANSPORT
    wake_mode = WakeMode.APP_SERVER
    capabilities: tuple[str, ...] = (QUEUES,)
    levels: Mapping[str, str] = MappingProxyType(
        {**dict.fromkeys(("D0", "D1", "D2", "D3", "D4", "D5", "D6", "D7"), "pass"), "D8": "partial"}
    )

    def __init__(self, homes: Sequence[Path], enrol: Enrol, *, version: str = "0", steer: bool = False) -> None:
        self._homes = tuple(homes)
        self._enrol = enrol
        self._version = version
        self._steer = steer
        self._watches: list[Watch] = []
        self._rung_idle: deque[str] = deque(maxlen=REMEMBERED_MARKS)

    # -- ringing ------------------------------------------------------------------------------------------------------

    async def deliver(self, parcel: Parcel) -> Result:
        thread_id = None if parcel.session is None else parcel.session.native_id
        if thread_id is None:
            return Failed("no_thread", "The session does not name its Codex thread.", retryable=False)
        try:
            async with self._reach(thread_id) as server:
                return await self._ring(server, thread_id, parcel)
        except Unreachable:
            return Absent()
        except (Unanswered, Refusal, TimeoutError) as problem:  # while looking: nothing was sent
            return Failed("app_server", bounded(repr(problem)))

    async def _ring(self, server: AppServer, thread_id: str, parcel: Parcel) -> Result:
        # A first attempt has been in no turn yet; then only the one that runs is of interest.
        turns_to_read = threads.RECENT.turns if parcel.attempt > 1 else 1
        async with asyncio.timeout(_half(parcel)):
            thread, queue, turns = await threads.look_at(server, thread_id, threads.Page(turns_to_read, self._steer))
        found = _find(parcel.mark, queue, turns)
        if found is not None:
            return Accepted(None, found)
        if thread is None or not _takes_mail(thread):
            return Absent()
        for stale in ours(queue):
            await threads.take_from_queue(server, thread_id, stale.id)
        running = running_turn(turns)
        if self._steer and running is not None:
            return await _steer(server, thread_id, running, parcel)
        if presence_of(thread.status) is Presence.IDLE:
            self._rung_idle.append(parcel.mark)
        return await _queue(server, thread_id, parcel)

    async def withdraw(self, session: Session, mark: str) -> bool:
        thread_id = session.native_id or ""
        try:
            async with self._reach(thread_id) as server:
                waiting = [
                    one for one in await threads.queue_of(server, thread_id) if one.client_user_message_id == mark
                ]
                return any([await threads.take_from_queue(server, thread_id, one.id) for one in waiting])
        except (Unreachable, Unanswered, Refusal):
            return False

    @asynccontextmanager
    async def _reach(self, thread_id: str) -> AsyncIterator[AppServer]:
        """The app server that has the thread loaded: one that is followed, else one that is asked now."""
        for watch in self._watches:
            if thread_id in watch and watch.server is not None:
                yield watch.server
                return
        async with AsyncExitStack() as stack:
            for home in self._homes:
                try:
                    server = await stack.enter_async_context(open_app_server(home, self._version))
                    thread = await threads.read_thread(server, thread_id)
                except (Unreachable, Unanswered):
                    continue
                if thread is not None and thread.status.type != NOT_LOADED:
                    yield server
                    return
            raise Unreachable("No app server has the thread loaded.")

    # -- watching -----------------------------------------------------------------------------------------------------

    async def watch(self, sessions: Sessions, report: Report) -> None:
        self._watches = [
            Watch(
                home,
                self._version,
                self._enrol,
                self._describe,
                report,
                self._rung_idle.__contains__,
                whole=self._steer,
            )
            for home in self._homes
        ]
        try:
            async with asyncio.TaskGroup() as group:
                for watch in self._watches:
                    group.create_task(watch.run())
                group.create_task(self._miss(sessions, report))
        finally:
            self._watches = []

    async def _miss(self, sessions: Sessions, report: Report) -> None:
        """A thread that was closed while nobody looked.  Only when every home can tell what it has loaded."""
        while True:
            await asyncio.sleep(MISSING_SECONDS)
            loaded = [watch.loaded for watch in self._watches]
            if not all(one is not None for one in loaded):
                continue
            there = frozenset[str]().union(*(one for one in loaded if one is not None))
            for session in sessions():
                if _is_ours(session) and session.native_id not in there:
                    await report(Gone(session.session_id, "thread_not_loaded"))

    def _describe(self, thread: Thread, token: str, version: str | None) -> Hello:
        return Hello(
            type="hello",
            protocol=PROTOCOL,
            token=token,
            harness=HARNESS,
            version=version,
            native_id=thread.id,
            transport=TRANSPORT,
            wake_mode="app-server",
            cwd=thread.cwd,
            capabilities=list(self.capabilities),
            presence="unknown",  # until it is followed: nothing rings before that
            resumable=True,
        )


def _half(parcel: Parcel) -> float:
    """Of its time: one for looking, one for ringing."""
    return parcel.timeout.total_seconds() / 2


def _is_ours(session: Session) -> bool:
    return (session.harness, session.transport) == (HARNESS, TRANSPORT) and session.native_id is not None


def _takes_mail(thread: Thread) -> bool:
    """Not what is not loaded: nobody would run it.  Not what waits for its human: that could take the question away."""
    return thread.status.type != NOT_LOADED and presence_of(thread.status) is not Presence.WAITING_ON_APPROVAL


def _find(mark: str, queue: Sequence[Submission], turns: Sequence[Turn]) -> str | None:
    """Where the mark is already, if an earlier attempt got further than we heard."""
    if any(one.client_user_message_id == mark for one in queue):
        return "already in the thread's queue"
    turn = next((turn for turn in turns if mark in marks_of(turn)), None)
    return None if turn is None else f"already in turn {turn.id}"


async def _queue(server: AppServer, thread_id: str, parcel: Parcel) -> Result:
    try:
        submission_id = await threads.add_to_queue(server, thread_id, parcel.mark, parcel.text, _half(parcel))
    except Unanswered as problem:
        return Uncertain("no_answer", bounded(str(problem)))
    except Refusal as refusal:
        return Failed("rejected", str(refusal))
    return Accepted(None, f"queued as {submission_id}")


async def _steer(server: AppServer, thread_id: str, running: Turn, parcel: Parcel) -> Result:
    """Refused means that this turn is over: then the queue takes it."""
    try:
        await threads.steer(server, thread_id, running.id, parcel.mark, parcel.text)
    except Unanswered as problem:
        return Uncertain("no_answer", bounded(str(problem)))
    except Refusal:
        return await _queue(server, thread_id, parcel)
    return Accepted(None, f"steered turn {running.id}")
