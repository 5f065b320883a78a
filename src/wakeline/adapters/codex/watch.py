"""Follow the threads of one Codex home: who is there, how they are, which of our marks are in their turns.

The app server tells everybody when a thread's status changes; what is in its turns has to be asked.  A status comes a
moment before the prompt of its turn can be read, so a thread that is active without one is looked at again, soon and
then less often.  Everything is looked through now and then as well: it is a sign of life, and news may be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from wakeline.adapters.codex import entry, threads
from wakeline.adapters.codex.followed import SOURCE, Followed
from wakeline.adapters.codex.messages import (
    NOT_LOADED,
    Status,
    StatusChanged,
    Thread,
    ThreadNamed,
    ThreadRead,
    is_session,
)
from wakeline.adapters.codex.server import AppServer, Frame, Refusal, Unanswered, Unreachable, open_app_server
from wakeline.adapters.harness import Report
from wakeline.core.observation import Gone, Noticed
from wakeline.core.session import Presence
from wakeline.errors import Unavailable, WakelineError
from wakeline.wire.seat import Hello

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

SURVEY_SECONDS = 20.0
AGAIN_SECONDS = 1.0


class Enrolled(Protocol):
    @property
    def session_id(self) -> str: ...


# Make or renew a session in its agent's own name.  Raises WakelineError.
Enrol = Callable[[Hello], Awaitable[Enrolled]]
Describe = Callable[[Thread, str, str | None], Hello]  # the thread, the agent's token, Codex's version


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
        self._home, self._version = home, version
        self._enrol, self._describe = enrol, describe
        self._report = report
        self._woke, self._whole = woke, whole
        self._news: asyncio.Queue[Frame] = asyncio.Queue()
        self._followed: dict[str, Followed] = {}
        self._strangers: set[str] = set()
        self._refused: dict[str, str] = {}  # which token was refused for which thread
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
                with contextlib.suppress(msgspec.ValidationError):  # of another form: the next survey sees what it was
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
        self._refused.clear()

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
            followed.change(status)
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
                followed.confirm(thread.status)
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
        """It is a session at once, so that its mail takes this way; it is rung when it can fetch that mail."""
        try:
            token = await self._token(server, cwd)
            if token is None or self._refused.get(thread_id) == token:
                return
            session_id = await self._register(server, thread_id, token)
            if session_id is None:
                return
            await threads.wait_for_tools(server, thread_id, entry.NAME)
            status = self._meeting[thread_id].status
        finally:
            self._meeting.pop(thread_id, None)
        followed = self._followed[thread_id] = Followed(thread_id, session_id, status)
        await self._look(server, followed, threads.RECENT)

    async def _token(self, server: AppServer, cwd: str | None) -> str | None:
        """None: it is nobody's that we know, and the next survey asks again."""
        try:
            return entry.token_of(await threads.our_entry(server, cwd, entry.NAME))
        except Refusal as refusal:
            _log.warning("the configuration of Codex at %s cannot be read: %s", self._home, refusal)
            return None

    async def _register(self, server: AppServer, thread_id: str, token: str) -> str | None:
        try:
            enrolled = await self._enrol(self._describe(self._meeting[thread_id], token, server.version))
        except Unavailable as error:
            _log.info("the Codex thread %s is not a session yet: %s", thread_id, error.message)
            return None
        except WakelineError as error:  # another server's agent, perhaps: so it stays until the token is another
            _log.info("the Codex thread %s is not taken as a session: %s", thread_id, error.message)
            self._refused[thread_id] = token
            return None
        return enrolled.session_id

    async def _part(self, thread_id: str) -> None:
        self._strangers.discard(thread_id)
        self._refused.pop(thread_id, None)
        followed = self._followed.pop(thread_id, None)
        if followed is not None:
            await self._report(Gone(followed.session_id, "thread_closed"))

    async def _look(self, server: AppServer, followed: Followed, page: threads.Page = threads.LAST) -> None:
        turns = await threads.recent_turns(server, followed.thread_id, page._replace(whole=self._whole))
        for seen in followed.news(turns, self._woke, self._now()):
            await self._report(seen)
        followed.time(turns, self._now())


def _parse(raw: msgspec.Raw, kind: type[_T]) -> _T:
    return msgspec.json.decode(raw, type=kind)
