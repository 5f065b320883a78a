"""Keys of an external issuer, fetched from its JWKS and kept until a token names one that we do not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiohttp
import jwt

from wakeline.core.instant import SECOND
from wakeline.errors import Unauthorized, Unavailable

REFRESH = 60 * SECOND
TIMEOUT_SECONDS = 5
MAX_BYTES = 1 << 20


class Jwks:
    def __init__(self, url: str, clock: Callable[[], int]) -> None:
        self._url = url
        self._clock = clock
        self._keys: dict[str, Any] = {}
        self._fetched_at = -REFRESH
        self._is_away = False

    async def find(self, token: str) -> Any:
        kid = jwt.get_unverified_header(token).get("kid")
        if not isinstance(kid, str):
            raise Unauthorized("TOKEN_INVALID", "The token does not say which key signed it.")
        if kid not in self._keys and self._clock() - self._fetched_at >= REFRESH:
            await self._fetch()
        if kid not in self._keys and self._is_away:
            raise _unavailable()
        if kid not in self._keys:
            raise Unauthorized("TOKEN_INVALID", "The token was signed with a key that the issuer does not publish.")
        return self._keys[kid]

    async def _fetch(self) -> None:
        self._fetched_at = self._clock()
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(self._url) as answer:
                answer.raise_for_status()
                document = jwt.PyJWKSet.from_json((await _read(answer)).decode())
        except (aiohttp.ClientError, TimeoutError, jwt.PyJWTError, ValueError) as error:
            self._is_away = True
            raise _unavailable() from error
        self._is_away = False
        self._keys = {key.key_id: key.key for key in document.keys if key.key_id}


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > MAX_BYTES:
            raise ValueError("no JWKS is that large")
    return body


def _unavailable() -> Unavailable:
    return Unavailable("ISSUER_UNAVAILABLE", "The issuer's keys cannot be fetched.")
