"""The calls of an opencode server that we use, and its stream of events.

Everything that can go wrong between us and it is one exception with a reason; the adapter makes a result of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec

from wakeline.core.parcel import bounded

USER = "opencode"
CALL_SECONDS = 10
GREETING_SECONDS = 1  # it answers within milliseconds
SILENCE_SECONDS = 45  # it says at least that it is alive every ten
LINE_BYTES = 1 << 24  # an event may hold a whole diff

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class OpencodeFailure(Exception):
    def __init__(self, reason: str, detail: str, status: int | None = None) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = bounded(detail)
        self.status = status


class OpencodeServer:
    def __init__(self, url: str, password: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": aiohttp.encode_basic_auth(USER, password)} if password else {}
        self._session: aiohttp.ClientSession | None = None
        self._patience = GREETING_SECONDS

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def session(self, native_id: str) -> dict[str, Any] | None:
        return await self._find(f"/session/{native_id}")

    async def message(self, native_id: str, message_id: str) -> dict[str, Any] | None:
        return await self._find(f"/session/{native_id}/message/{message_id}")

    async def messages(self, native_id: str, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._call("GET", f"/session/{native_id}/message", limit=str(limit))
        return found

    async def withdraw(self, native_id: str, message_id: str) -> None:
        await self._call("DELETE", f"/session/{native_id}/message/{message_id}")

    async def prompt(self, native_id: str, directory: str, body: dict[str, Any], *, quiet: bool) -> None:
        """A quiet one is stored, and the model sees it in its next turn."""
        if quiet:
            await self._call("POST", f"/session/{native_id}/message", {**body, "noReply": True}, directory=directory)
        else:
            await self._call("POST", f"/session/{native_id}/prompt_async", body, directory=directory)

    async def config(self, directory: str) -> dict[str, Any]:
        found: dict[str, Any] = await self._call("GET", "/config", directory=directory)
        return found

    async def busy(self, directory: str) -> dict[str, Any]:
        found: dict[str, Any] = await self._call("GET", "/session/status", directory=directory)
        return found

    async def permissions(self, directory: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._call("GET", "/permission", directory=directory)
        return found

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """What happens in all directories of this server, until it goes away."""
        try:
            async with await self._follow() as answer:
                await self._check(answer)
                async for line in answer.content:
                    if line.startswith(b"data:"):
                        yield _decode(line[5:]).get("payload", {})
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, msgspec.DecodeError) as error:
            raise OpencodeFailure("unreachable", f"{type(error).__name__}: {error}") from error

    async def _follow(self) -> aiohttp.ClientResponse:
        """A starting opencode takes requests that it never answers: so wait briefly, and longer the next time."""
        limits = aiohttp.ClientTimeout(total=None, sock_read=SILENCE_SECONDS)
        patience, self._patience = self._patience, GREETING_SECONDS
        try:
            async with asyncio.timeout(patience):
                return await self._http().get(f"{self.url}/global/event", timeout=limits)
        except TimeoutError:
            self._patience = min(2 * patience, SILENCE_SECONDS)
            raise

    async def _find(self, path: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = await self._call("GET", path)
        except OpencodeFailure as failure:
            if failure.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        return found

    async def _call(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        limits = aiohttp.ClientTimeout(total=CALL_SECONDS)
        try:
            async with self._http().request(
                method, self.url + path, json=body, params=query, timeout=limits, allow_redirects=False
            ) as answer:
                await self._check(answer)
                content = await answer.read()
                return msgspec.json.decode(content) if content else None
        except (aiohttp.ClientError, OSError, msgspec.DecodeError) as error:
            raise OpencodeFailure("unreachable", f"{type(error).__name__}: {error}") from error

    async def _check(self, answer: aiohttp.ClientResponse) -> None:
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            text = (await answer.read())[:1000].decode("utf-8", "replace")
            raise OpencodeFailure("refused", f"{answer.status} {text}", answer.status)

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers, read_bufsize=LINE_BYTES)
        return self._session
