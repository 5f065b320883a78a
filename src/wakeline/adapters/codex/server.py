"""One connection to Codex's app server: JSON-RPC in WebSocket frames, over the Unix socket that Codex's home names.

We never subscribe to a thread (`thread/resume`).  A subscriber is sent the approvals that a human must answer, and
keeps a thread loaded that its human has left.  Status and closing are said to everybody; the rest can be asked.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec

from wakeline.adapters.codex.messages import Initialized
from wakeline.core.parcel import bounded

SOCKET = Path("app-server-control") / "app-server-control.sock"
CONNECT_SECONDS = 5.0
CLOSE_SECONDS = 1.0
ANSWER_SECONDS = 10.0
FRAME_BYTES = 64 * 1024 * 1024  # a page of turns holds whole answers of the model

_T = TypeVar("_T")
_encode = msgspec.json.Encoder().encode
_version = re.compile(r"/(\d+\.\d+\.\d+[^\s]*)")


class Unreachable(Exception):
    """There is no app server, or it was gone before it was asked."""


class Unanswered(Exception):
    """It was asked, and nobody can tell what came of it."""


class Refusal(Exception):
    """It said no."""


class _Error(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class Frame(msgspec.Struct, frozen=True):
    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw = msgspec.Raw(b"{}")
    error: _Error | None = None


_frame = msgspec.json.Decoder(Frame).decode
Hear = Callable[[Frame], None]


class AppServer:
    """What the server asks of its clients (approvals, questions) is the human's to answer, and never answered here."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, hear: Hear) -> None:
        self._socket = socket
        self._hear = hear
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self.closed = asyncio.Event()
        self.version: str | None = None

    async def ask(self, method: str, kind: type[_T], /, *, patience: float = ANSWER_SECONDS, **params: Any) -> _T:
        """Raises Unreachable if it was certainly not asked, Unanswered if it may have been, Refusal if it says no."""
        if self.closed.is_set():
            raise Unreachable("The connection was closed.")
        number = next(self._numbers)
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._say({"id": number, "method": method, "params": params})
            async with asyncio.timeout(patience):
                frame = await answer
        except (TimeoutError, OSError, aiohttp.ClientError) as error:
            raise Unanswered(f"{method}: {error!r}") from error
        finally:
            del self._waiting[number]
        if frame.error is not None:
            raise Refusal(bounded(frame.error.message))
        return _parse(frame.result, kind)

    async def _say(self, message: dict[str, Any]) -> None:
        await self._socket.send_str(_encode(message).decode())

    async def introduce(self, version: str) -> None:
        ours = {"name": "wakeline", "title": "Wakeline", "version": version}
        wanted = {"experimentalApi": True, "requestAttestation": False}
        said = await self.ask("initialize", Initialized, clientInfo=ours, capabilities=wanted)
        found = _version.search(said.user_agent)
        self.version = found[1] if found else None
        await self._say({"method": "initialized"})

    async def listen(self) -> None:
        """Hand out what comes, until the connection ends; then nobody waits for an answer any more."""
        try:
            async for message in self._socket:
                if message.type == aiohttp.WSMsgType.TEXT:
                    self._take(_frame(message.data))
        finally:
            self.closed.set()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(ConnectionResetError("the connection was closed"))
            self._hear(Frame())

    def _take(self, frame: Frame) -> None:
        if frame.method is not None:
            if frame.id is None:
                self._hear(frame)
            return
        answer = self._waiting.get(frame.id) if isinstance(frame.id, int) else None
        if answer is not None and not answer.done():
            answer.set_result(frame)


@asynccontextmanager
async def open_app_server(home: Path, version: str, hear: Hear = lambda _: None) -> AsyncIterator[AppServer]:
    """Raises Unreachable when there is none.  `hear` gets every notification, and an empty frame at the end."""
    connector = aiohttp.UnixConnector(str(_place(home)))
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(CONNECT_SECONDS)) as session:
        try:
            patience = aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS)
            socket = await session.ws_connect("http://localhost/", max_msg_size=FRAME_BYTES, timeout=patience)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unreachable(bounded(str(error))) from error
        server = AppServer(socket, hear)
        reader = asyncio.ensure_future(server.listen())
        try:
            await _introduced(server, version)
            yield server
        finally:
            await socket.close()
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)


async def _introduced(server: AppServer, version: str) -> None:
    try:
        await server.introduce(version)
    except (Unanswered, Refusal) as error:
        raise Unreachable(str(error)) from error


def _place(home: Path) -> Path:
    """Where the link leads, because the link may be longer than a socket's address can be.  Only a socket of ours."""
    place = (home / SOCKET).resolve()
    try:
        owner = place.stat().st_uid
    except OSError as error:
        raise Unreachable(f"There is no app server at {home}: {error.strerror}.") from error
    if owner != os.getuid():
        raise Unreachable(f"The app server's socket at {home} is another user's.")
    return place


def _parse(raw: msgspec.Raw, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise Refusal(f"An answer of another form: {error}") from error
