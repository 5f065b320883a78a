"""Follow the threads of one Codex home: who is there, how they are, which of our marks are in their turns.

The app server tells everybody when a thread's status changes; what is in its turns has to be asked.  A status comes a
moment before the prompt of its turn can be read, so a thread that is active without one is looked at again, soon and
then less often.  Everything is looked through now and then as well: it is a sign of life, and news may be lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from wakeline.adapters.codex import entry, threads
from wakeline.adapters.codex.messages import (
    NOT_LOADED,
    Status,
    StatusChanged,
    Thread,
    ThreadNamed,
    ThreadRead,
    Turn,
    ending_of,
    has_prompt,
    is_session,
    marks_of,
    presence_of,
    running_turn,
)
from wakeline.adapters.codex.server import AppServer, Frame, Refusal, Unanswered, Unreachable, open_app_server
from wakeline.adapters.harness import Report
from wakeline.core.observation import Gone, Injected, Noticed, Observation, Processed
from wakeline.core.session import Presence
from wakeline.errors import WakelineError
from wakeline.wire.seat import Hello

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

SOURCE = "app-server"
SURVEY_SECONDS = 20.0
AGAIN_SECONDS = 1.0
LOOKS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
REMEMBERED_TURNS = 100


class Enrolled(Protocol):
    @property
    def session_id(self) -> str: ...


# Make or renew a session in its agent's own name.  Raises WakelineError.
Enrol = Callable[[Hello], Awaitable[Enrolled]]
Describe = Callable[[Thread, str, str | None], Hello]  # the thread, the agent's token, Codex's version


@dataclass(slots=True)
class Followed:
    """A thread that is a session of ours, and what was said of it so far."""

    thread_id: str
    session_id: str
    status: Status
    told: tuple[Presence, str | None] | None = None
    injected: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by turn
    ended: set[str] = field(default_factory=set)
    looks: int = 0
    look_at: float | None = None


class Watch:
    """`woke`: was this mark rung in a thread that was idle?  `whole`: our marks may also be inside of turns."""

    def __init__(
        self,
        home: Path,
        version: str,
        enrol: Enrol,
        describe: Describe,
        report: Report,
        woke: Callable[[str], bool] = lambda _: False,
        *,
        whole: bool = False,
    ) -> None:
        self._whole = whole
        self._home = home
        self._woke = woke
        self._version = version
        self._enrol = enrol
        self._describe = describe
        self._report = report
        self._news: asyncio.Queue[Frame] = asyncio.Queue()
        self._followed: dict[str, Followed] = {}
        self._strangers: set[str] = set()
        self._meeting: dict[str, Thread] = {}  # those that are just being met, as they were last seen
        self._group: asyncio.TaskGroup | None = None
        self._survey_at = 0.0
        self.server: AppServer | None = None
        self._surveyed: frozenset[str] | None = None

    def __contains__(self, thread_id: str) -> bool:
        return thread_id in self._followed

    @property
    def loaded(self) -> frozenset[str] | None:
        """The threads that are there; None: nobody can tell."""
        return None if self._surveyed is None else self._surveyed.union(self._followed, self._meeting)

    async def run(self) -> None:
        while True:
            try:
                async with open_app_server(self._home, self._version, self._news.put_nowait) as server:
                    _log.info("following Codex %s at %s", server.version, self._home)
                    async with asyncio.TaskGroup() as self._group:
                        self.server = server
                        await self._follow(server)
            except* (Unreachable, Unanswered) as problems:
                _log.debug("Codex at %s is not followed: %r", self._home, problems.exceptions)
            finally:
                self.server, self._surveyed, self._group = None, None, None
            await self._lose_all()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _follow(self, server: AppServer) -> None:
        self._survey_at = 0.0
        while not server.closed.is_set():
            if self._now() >= self._survey_at:
                await self._survey(server)
                self._survey_at = self._now() + SURVEY_SECONDS
            frame = await self._next()
            if frame is not None and frame.method is not None:
                await self._take(server, frame.method, frame.params)
            for followed in [one for one in self._followed.values() if one.look_at is not None]:
                if followed.look_at is not None and followed.look_at <= self._now():
                    await self._look(server, followed)

    async def _next(self) -> Frame | None:
        """What is said next; None when something is due before."""
        due = [one.look_at for one in self._followed.values() if one.look_at is not None]
        pause = min([self._survey_at, *due]) - self._now()
        try:
            async with asyncio.timeout(max(pause, 0.0)):
                return await self._news.get()
        except TimeoutError:
            return None

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _lose_all(self) -> None:
        """The app server is gone: its sessions may come back with it, and until then nothing is known of them."""
        while not self._news.empty():
            self._news.get_nowait()
        for followed in self._followed.values():
            await self._report(Noticed(followed.session_id, Presence.UNKNOWN, None, SOURCE))
        self._followed.clear()
        self._strangers.clear()

    # -- what the server says -----------------------------------------------------------------------------------------

    async def _take(self, server: AppServer, method: str, params: msgspec.Raw) -> None:
        match method:
            case "thread/started":
                self._greet(server, _parse(params, ThreadRead).thread)
            case "thread/status/changed":
                said = _parse(params, StatusChanged)
                await self._changed(server, said.thread_id, said.status)
            case "thread/closed":
                await self._part(_parse(params, ThreadNamed).thread_id)
            case _:
                pass

    async def _changed(self, server: AppServer, thread_id: str, status: Status) -> None:
        followed = self._followed.get(thread_id)
        if followed is not None:
            followed.status, followed.looks = status, 0
            await self._look(server, followed)
        elif thread_id in self._meeting:
            self._meeting[thread_id] = msgspec.structs.replace(self._meeting[thread_id], status=status)
        elif thread_id not in self._strangers and status.type != NOT_LOADED:
            thread = await threads.read_thread(server, thread_id)
            if thread is not None:
                self._greet(server, thread)

    async def _survey(self, server: AppServer) -> None:
        loaded = await threads.loaded_threads(server)
        for thread_id in set(loaded) - self._strangers:
            thread = await threads.read_thread(server, thread_id)
            followed = self._followed.get(thread_id)
            if thread is not None and followed is None:
                self._greet(server, thread)
            elif thread is not None and followed is not None:
                followed.status, followed.told = thread.status, None
                await self._look(server, followed, threads.RECENT)
        for thread_id in set(self._followed) - set(loaded):
            await self._part(thread_id)
        self._surveyed = frozenset(loaded)

    # -- one thread ---------------------------------------------------------------------------------------------------

    def _greet(self, server: AppServer, thread: Thread) -> None:
        """Meet it beside everything else: it may take a while until it has our tools."""
        if not is_session(thread):
            self._strangers.add(thread.id)
        elif self._group is not None and thread.id not in self._followed and thread.id not in self._meeting:
            self._meeting[thread.id] = thread
            self._group.create_task(self._meet(server, thread.id, thread.cwd))

    async def _meet(self, server: AppServer, thread_id: str, cwd: str | None) -> None:
        """One that is nobody's that we know is asked for again by the next survey."""
        try:
            token = entry.token_of(await threads.our_entry(server, cwd, entry.NAME))
            if token is None:
                return
            await threads.wait_for_tools(server, thread_id, entry.NAME)
            thread = self._meeting[thread_id]
            enrolled = await self._enrol(self._describe(thread, token, server.version))
        except (Refusal, WakelineError) as problem:
            _log.info("the Codex thread %s is not taken as a session: %s", thread_id, problem)
            return
        finally:
            thread = self._meeting.pop(thread_id)
        followed = self._followed[thread_id] = Followed(thread_id, enrolled.session_id, thread.status)
        await self._look(server, followed, threads.RECENT)

    async def _part(self, thread_id: str) -> None:
        self._strangers.discard(thread_id)
        followed = self._followed.pop(thread_id, None)
        if followed is not None:
            await self._report(Gone(followed.session_id, "thread_closed"))

    async def _look(self, server: AppServer, followed: Followed, page: threads.Page = threads.LAST) -> None:
        """Marks first: what a turn held is known before the session is said to be idle."""
        turns = await threads.recent_turns(server, followed.thread_id, page._replace(whole=self._whole))
        for turn in reversed(turns):
            for seen in _progress(followed, turn, self._woke):
                await self._report(seen)
        running = running_turn(turns)
        state = (presence_of(followed.status), running.id if running is not None else None)
        if state != followed.told:
            followed.told = state
            await self._report(Noticed(followed.session_id, state[0], state[1], SOURCE))
        self._time(followed, running)

    def _time(self, followed: Followed, running: Turn | None) -> None:
        """Does what we read agree with the status?  If not, one of them is about to change."""
        is_active = followed.status.type == "active"
        agrees = (running is not None and has_prompt(running)) if is_active else running is None
        if agrees or followed.looks >= len(LOOKS):
            followed.look_at = None
            return
        followed.look_at = self._now() + LOOKS[followed.looks]
        followed.looks += 1


def _progress(followed: Followed, turn: Turn, woke: Callable[[str], bool]) -> list[Observation]:
    """What this turn tells of our marks that was not told yet."""
    marks = marks_of(turn)
    found: list[Observation] = []
    if not marks:
        return found
    known = followed.injected.get(turn.id, ())
    new = tuple(mark for mark in marks if mark not in known)
    if new:
        followed.injected[turn.id] = marks
        found.append(Injected(followed.session_id, new, turn.id, any(map(woke, new))))
    ending = ending_of(turn)
    if ending is not None and turn.id not in followed.ended:
        followed.ended.add(turn.id)
        found.append(Processed(followed.session_id, marks, turn.id, ending))
    _forget(followed)
    return found


def _forget(followed: Followed) -> None:
    while len(followed.injected) > REMEMBERED_TURNS:
        oldest = next(iter(followed.injected))
        del followed.injected[oldest]
        followed.ended.discard(oldest)


def _parse(raw: msgspec.Raw, kind: type[_T]) -> _T:
    return msgspec.json.decode(raw, type=kind)
