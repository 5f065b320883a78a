"""opencode behind a server of its own (`opencode serve`): prompts through its API, presence and receipts by its events.

opencode has no lock on a session, and a prompt through another process than the one that shows it would be written
where nobody looks.  So a session counts as a server's only when that server's own events told of it: it was made there,
or had a turn there.  Where the plugin is installed (`harnesses/opencode`), it looks after the sessions instead.

What waits for a turn is told when one begins.  There is no hook for that here, but what is stored without a reply while
a turn runs is before the model at its next step.  It is not stored earlier: until the model has seen it, it keeps the
session reserved, and the next turn of an idle session may be days away.

An event is told once.  So a call that a busy server does not answer in time never costs us the stream of events: what
it was for is asked again at the next sign of life.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from wakeline.adapters.harness import Report, Sessions
from wakeline.adapters.opencode.api import OpencodeFailure, OpencodeServer
from wakeline.adapters.opencode.history import shown_in, text_of
from wakeline.adapters.opencode.letter import Letter, letter_of
from wakeline.adapters.opencode.owner import has_companion, token_of
from wakeline.adapters.opencode.session import SOURCE, ServedSession
from wakeline.core.observation import LAST_SENT, Gone, Noticed, Observation, Processed
from wakeline.core.parcel import Accepted, Failed, Parcel, Refused, Result, Uncertain
from wakeline.core.session import Presence, Session, WakeMode
from wakeline.errors import WakelineError
from wakeline.wire.seat import PROTOCOL, Hello, Welcome

_log = logging.getLogger(__name__)

HARNESS = "opencode"
TRANSPORT = "served"
AGAIN_SECONDS = 2.0
BEAT_SECONDS = 60.0
HISTORY = 50
_CONNECTED = "server.connected"
_ALIVE = (_CONNECTED, "server.heartbeat")
_BEGINS = ("session.created", "session.status")

Register = Callable[[Hello], Awaitable[Welcome]]
Announce = Callable[[str, str | None, tuple[str, ...]], Awaitable[tuple[str | None, list[str]]]]


class OpencodeServed:
    harness = HARNESS
    transport = TRANSPORT
    wake_mode = WakeMode.NATIVE_PUSH
    capabilities = ("queue_when_active",)
    levels: Mapping[str, str] = {f"D{number}": "pass" for number in range(8)} | {"D8": "partial"}

    def __init__(self, servers: Sequence[OpencodeServer], register: Register, announce: Announce) -> None:
        self._servers = tuple(servers)
        self._register = register
        self._announce = announce
        self._known: dict[str, tuple[OpencodeServer, ServedSession]] = {}  # by the harness's own id
        self._unmet: dict[str, OpencodeServer] = {}  # sessions that a server told of, and nobody could look at yet
        self._parents: dict[str, str] = {}  # a subagent's session → the session that it works for
        self._told: dict[str, float] = {}  # when a session's presence was last repeated
        self._report: Report | None = None

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    # -- ringing ------------------------------------------------------------------------------------------------------

    async def deliver(self, parcel: Parcel) -> Result:
        session = parcel.session
        if session is None or session.native_id is None:
            return Failed("no_native_id", "The session does not say which of opencode's it is.", retryable=False)
        try:
            async with asyncio.timeout(parcel.timeout.total_seconds()):
                return await self._ring(parcel, session)
        except TimeoutError:
            return Uncertain("timeout", "The server did not answer in time.")
        except OpencodeFailure as failure:
            self._forget(session.native_id, parcel.mark)
            return _result(failure)

    async def _ring(self, parcel: Parcel, session: Session) -> Result:
        found = await self._find(session)
        if found is None:
            return Failed("session_gone", f"No server knows {session.native_id}.", retryable=False)
        server, served = found
        letter = letter_of(parcel.mark, parcel.text)
        served.letters[parcel.mark] = letter
        served.handover = None  # a doorbell tells of all that is unread
        if await server.message(served.native_id, letter.message_id) is not None:
            return await self._resume(server, served, letter)
        detail = "for the next prompt" if served.interrupted else "queued" if served.busy else "turn started"
        await self._prompt(server, served, letter, quiet=served.interrupted)
        return Accepted(HTTPStatus.NO_CONTENT, detail)

    def _forget(self, native_id: str, mark: str) -> None:
        if native_id in self._known:
            self._known[native_id][1].letters.pop(mark, None)

    async def _resume(self, server: OpencodeServer, served: ServedSession, letter: Letter) -> Result:
        """It was prompted before, and whoever did it died before telling.  Was it answered?"""
        history = await server.messages(served.native_id, HISTORY)
        shown = {one.mark: one for one in shown_in(history)}.get(letter.mark)
        if shown is not None and (shown.status is not None or served.busy):
            await self._tell(served.recall(history, running=served.busy))
            return Accepted(None, "already answered")
        await self._again(server, served, letter)
        return Accepted(HTTPStatus.NO_CONTENT, "prompted again")

    async def _prompt(
        self, server: OpencodeServer, served: ServedSession, letter: Letter, *, quiet: bool = False
    ) -> None:
        info = await server.session(served.native_id) or {}
        body = {
            "messageID": letter.message_id,
            **_mode(info),
            "parts": [{"id": letter.part_id, "type": "text", "text": letter.text}],
        }
        await server.prompt(served.native_id, str(info.get("directory", "")), body, quiet=quiet)

    async def _again(self, server: OpencodeServer, served: ServedSession, letter: Letter) -> None:
        # The same id would be the same message, but screens would show it twice.
        await server.withdraw(served.native_id, letter.message_id)
        await self._prompt(server, served, letter)

    # -- calling off --------------------------------------------------------------------------------------------------

    async def withdraw(self, session: Session, mark: str) -> bool:
        """In a turn opencode lets nobody delete a message; then it is seen to when the turn is over."""
        server, served = self._known.get(session.native_id or "", (None, None))
        letter = None if served is None else served.letters.get(mark)
        if server is None or served is None or letter is None or letter.shown:
            return False
        letter.unwanted = True
        await self._discard(server, served)
        return mark not in served.letters

    async def _discard(self, server: OpencodeServer, served: ServedSession) -> None:
        for message_id in () if served.busy else served.discardable():
            with contextlib.suppress(OpencodeFailure):  # gone already, or there is a turn again
                await server.withdraw(served.native_id, message_id)
                served.discard(message_id)

    async def _find(self, session: Session) -> tuple[OpencodeServer, ServedSession] | None:
        native_id = session.native_id or ""
        if native_id not in self._known:
            for server in self._servers:
                info = await server.session(native_id)
                if info is not None:
                    served = ServedSession(session.session_id, native_id, info.get("directory"))
                    self._known[native_id] = (server, served)
                    break
        return self._known.get(native_id)

    # -- watching -----------------------------------------------------------------------------------------------------

    async def watch(self, sessions: Sessions, report: Report) -> None:
        self._report = report
        try:
            async with asyncio.TaskGroup() as group:
                for server in self._servers:
                    group.create_task(self._follow(server, sessions))
        finally:
            await self.close()

    async def _follow(self, server: OpencodeServer, sessions: Sessions) -> None:
        """A server that is away is looked for again; until then nothing is known of its sessions."""
        while True:
            with contextlib.suppress(OpencodeFailure):
                async for event in server.events():
                    await self._take(server, sessions, event)
            await self._tell(_unknown(served) for served in self._of(server))
            self._told.clear()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _take(self, server: OpencodeServer, sessions: Sessions, event: Mapping[str, Any]) -> None:
        kind = event.get("type", "")
        if kind == _CONNECTED:
            self._doubt(server)
        try:
            if kind in _ALIVE:
                await self._refresh(server, sessions())
            else:
                await self._hear(server, kind, event.get("properties", {}))
        except OpencodeFailure:
            self._doubt(server)

    def _doubt(self, server: OpencodeServer) -> None:
        """We have not followed it until now, or it did not answer: its sessions' histories tell what that has cost."""
        for served in self._of(server):
            served.recalled = False

    async def _refresh(self, server: OpencodeServer, sessions: Iterable[Session]) -> None:
        """Who is there, and how they are: at every sign of life, because sessions come without an event of theirs."""
        for native_id in [native_id for native_id, owner in self._unmet.items() if owner is server]:
            await self._meet(server, native_id)
        for session in sessions:
            if session.harness == HARNESS and session.transport == TRANSPORT:
                await self._find(session)
        theirs = self._of(server)
        for directory in {served.directory for served in theirs if served.directory}:
            busy = await server.busy(directory)
            asked = await server.permissions(directory)
            for served in (one for one in theirs if one.directory == directory):
                served.asked = {one["id"] for one in asked if self._root(one["sessionID"]) == served.native_id}
                kind = busy.get(served.native_id, {"type": "idle"})
                if served.recalled:
                    news = served.hear("session.status", {"status": kind})
                    await self._tell(news or self._beat(served))
                else:
                    await self._recall(server, served, directory)

    async def _recall(self, server: OpencodeServer, served: ServedSession, directory: str) -> None:
        """The history, read before and after the status: an answer unfinished in both, while nothing runs, is dead."""
        try:
            first = await server.messages(served.native_id, HISTORY)
            runs = served.native_id in await server.busy(directory)
            history = await server.messages(served.native_id, HISTORY)
        except OpencodeFailure as failure:
            if failure.status != HTTPStatus.NOT_FOUND:
                raise
            await self._part(served)
            return
        known = {one["info"]["id"] for one in first}
        began = any(one["info"]["id"] not in known for one in history)
        await self._tell(served.recall(history, running=runs or began))
        await self._poke(server, served)

    async def _part(self, served: ServedSession) -> None:
        del self._known[served.native_id]
        await self._tell([Gone(served.session_id, "deleted")])

    async def _hear(self, server: OpencodeServer, kind: str, properties: Mapping[str, Any]) -> None:
        info = properties.get("info", {})
        if kind in ("session.created", "session.updated") and info.get("parentID"):
            self._parents[info["id"]] = info["parentID"]
        native_id = str(properties.get("sessionID") or info.get("sessionID") or info.get("id") or "")
        if kind in _BEGINS and native_id not in self._known:
            await self._meet(server, native_id)
        # A subagent's questions are the human's business; its turns are a part of the turn of its root.
        asks = kind.startswith(("permission.", "question."))
        found = self._known.get(self._root(native_id) if asks else native_id)
        if found is None:
            return
        _, served = found
        if kind == "session.deleted":
            await self._part(served)
            return
        rested = not served.busy
        news = served.hear(kind, properties)
        await self._tell([await self._with_answer(server, served, one) for one in news])
        if kind == "session.status":
            await self._poke(server, served)
            if rested and served.busy:
                await self._tell_turn(server, served)

    async def _with_answer(self, server: OpencodeServer, served: ServedSession, seen: Observation) -> Observation:
        """A turn of ours that ended is told with what the model said last, if the server says it."""
        if not isinstance(seen, Processed) or served.answer is None:
            return seen
        with contextlib.suppress(OpencodeFailure):
            found = await server.message(served.native_id, served.answer)
            return msgspec.structs.replace(seen, last=text_of(found or {})[:LAST_SENT])
        return seen

    async def _tell_turn(self, server: OpencodeServer, served: ServedSession) -> None:
        """A turn begins: what waits for it.  Mail that it was told of before is not told at every turn again."""
        shown = tuple(letter.mark for letter in served.unseen())
        try:
            text, marks = await self._announce(served.session_id, None, shown)
        except WakelineError as error:
            _log.info("a turn of %s is told nothing: %s", served.session_id, error.message)
            return
        told, served.handover = (text if marks else served.handover), None
        if marks and told:
            await self._store(server, served, told, served.announce(told, marks))
        elif told and not shown:
            await self._store(server, served, told)

    async def _store(
        self, server: OpencodeServer, served: ServedSession, text: str, letter: Letter | None = None
    ) -> None:
        """For the model's next step, and not in the human's name: a session is not called after it."""
        info = await server.session(served.native_id) or {}
        named = {} if letter is None else {"messageID": letter.message_id}
        part = {"type": "text", "synthetic": True, "text": text} | ({} if letter is None else {"id": letter.part_id})
        body = {**named, **_mode(info), "parts": [part]}
        await server.prompt(served.native_id, str(info.get("directory", "")), body, quiet=True)

    def _beat(self, served: ServedSession) -> list[Observation]:
        """That it is as it was is told once in a while, so that it does not go stale."""
        now = asyncio.get_running_loop().time()
        if now - self._told.get(served.native_id, -BEAT_SECONDS) < BEAT_SECONDS:
            return []
        self._told[served.native_id] = now
        return [served.notice()]

    async def _meet(self, server: OpencodeServer, native_id: str) -> None:
        """A session of this server that we have not heard of: register it as its agent's, if it has one."""
        self._unmet[native_id] = server
        info = await server.session(native_id)
        token = None if info is None or info.get("parentID") else await self._token(server, info["directory"])
        if info is None or token is None or await self._seat(server, info, token):
            self._unmet.pop(native_id, None)

    async def _token(self, server: OpencodeServer, directory: str) -> str | None:
        config = await server.config(directory)
        return None if has_companion(config) else token_of(config)

    async def _seat(self, server: OpencodeServer, info: Mapping[str, Any], token: str) -> bool:
        """Is that settled, with a seat or without?"""
        try:
            welcome = await self._register(_hello(info, token))
        except WakelineError as error:
            _log.warning("a session of opencode at %s has no seat: %s", server.url, error.message)
            return not error.retryable
        served = ServedSession(welcome.session_id, info["id"], info["directory"])
        served.handover = welcome.doorbell
        self._known[info["id"]] = (server, served)
        return True

    async def _poke(self, server: OpencodeServer, served: ServedSession) -> None:
        await self._discard(server, served)
        for letter in served.stranded():
            letter.pokes += 1
            await self._again(server, served, letter)

    def _root(self, native_id: str) -> str:
        while native_id in self._parents:
            native_id = self._parents[native_id]
        return native_id

    def _of(self, server: OpencodeServer) -> list[ServedSession]:
        return [served for owner, served in self._known.values() if owner is server]

    async def _tell(self, observations: Iterable[Observation]) -> None:
        if self._report is not None:
            for observation in observations:
                await self._report(observation)


def _hello(info: Mapping[str, Any], token: str) -> Hello:
    return Hello(
        type="hello",
        protocol=PROTOCOL,
        token=token,
        harness=HARNESS,
        version=info.get("version"),
        native_id=info["id"],
        cwd=info["directory"],
        transport=TRANSPORT,
        wake_mode=WakeMode.NATIVE_PUSH.value,
        capabilities=list(OpencodeServed.capabilities),
        resumable=True,
        presence=Presence.IDLE.value,
    )


def _mode(info: Mapping[str, Any]) -> dict[str, Any]:
    """The mode and the model that the human has chosen: else opencode would take its defaults, and keep them."""
    chosen: dict[str, Any] = {"agent": info["agent"]} if info.get("agent") else {}
    model = info.get("model")
    if model:
        chosen["model"] = {"providerID": model["providerID"], "modelID": model["id"]}
        if model.get("variant") not in (None, "default"):
            chosen["variant"] = model["variant"]
    return chosen


def _unknown(served: ServedSession) -> Noticed:
    return Noticed(served.session_id, Presence.UNKNOWN, None, SOURCE)


def _result(failure: OpencodeFailure) -> Result:
    if failure.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Refused(failure.status, "unauthorized", failure.detail)
    return Failed(failure.reason, failure.detail, retryable=failure.status is None or failure.status >= 500)  # noqa: PLR2004 - HTTP
