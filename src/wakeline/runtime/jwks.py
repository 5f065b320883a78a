"""Keys of an external issuer: fetched on a schedule, and at once when a token names one that we do not know.

A key that the issuer no longer publishes, or publishes with another content, is withdrawn: whoever listens is told,
so that what it vouched for is forgotten.  An issuer that cannot be reached is no reason to lock its agents out at
once, nor to trust its last word for ever: the keys stay for a while after they were last seen, and then all of them
are withdrawn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import aiohttp
import jwt
import msgspec

from wakeline.core.instant import SECOND
from wakeline.errors import Unauthorized, Unavailable

_log = logging.getLogger(__name__)

AGAIN = 60 * SECOND  # the least time between two fetches that strangers' tokens or failures cause
TIMEOUT_SECONDS = 5
MAX_BYTES = 1 << 20

Withdrawn = Callable[[frozenset[str]], None]  # told the names of the keys


class Jwks:
    def __init__(self, url: str, clock: Callable[[], int], *, refresh_seconds: float, keep_seconds: float) -> None:
        self._url = url
        self._clock = clock
        self._refresh = int(refresh_seconds * SECOND)
        self._keep = int(keep_seconds * SECOND)
        self._keys: dict[str, Any] = {}
        self._tried_at = -AGAIN
        self._seen_at: int | None = None  # when the issuer last told us its keys
        self._trouble: str | None = None
        self._fetching = asyncio.Lock()
        self._listeners: list[Withdrawn] = []

    def on_withdrawn(self, hear: Withdrawn) -> None:
        self._listeners.append(hear)

    # -- asking -------------------------------------------------------------------------------------------------------

    async def find(self, token: str) -> Any:
        kid = jwt.get_unverified_header(token).get("kid")
        if not isinstance(kid, str):
            raise Unauthorized("TOKEN_INVALID", "The token does not say which key signed it.")
        if kid not in self._keys:
            async with self._fetching:  # who comes while it is fetched waits for it
                if kid not in self._keys and self._clock() - self._tried_at >= AGAIN:
                    await self._look()
        if kid not in self._keys and self._trouble is not None:
            raise Unavailable("ISSUER_UNAVAILABLE", "The issuer's keys cannot be fetched.")
        if kid not in self._keys:
            raise Unauthorized("TOKEN_INVALID", "The token was signed with a key that the issuer does not publish.")
        return self._keys[kid]

    def age_seconds(self) -> float | None:
        """How long ago the issuer told us its keys; None: it never did."""
        return None if self._seen_at is None else max(0, self._clock() - self._seen_at) / SECOND

    def describe(self) -> str:
        """For /readyz: how it is with the issuer."""
        age = self.age_seconds()
        seen = "never fetched" if age is None else f"fetched {age:.0f} s ago"
        if self._trouble is None:
            return f"{len(self._keys)} keys, {seen}"
        held = f"{len(self._keys)} old keys are trusted" if self._keys else "its tokens are refused"
        return f"the issuer's keys cannot be fetched ({self._trouble}), {seen}; {held}"

    # -- looking ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(self._pause() / SECOND)

    async def refresh(self) -> None:
        async with self._fetching:
            await self._look()

    def _pause(self) -> int:
        """Until the next look: sooner after a failure, and not later than what is old must go."""
        if self._trouble is None:
            return self._refresh
        pause = min(self._refresh, AGAIN)
        if self._keys and self._seen_at is not None:
            pause = min(pause, max(self._seen_at + self._keep - self._clock(), SECOND // 10))
        return pause

    async def _look(self) -> None:
        self._tried_at = self._clock()
        try:
            found = await self._fetch()
        except (aiohttp.ClientError, TimeoutError, jwt.PyJWTError, msgspec.MsgspecError, ValueError) as error:
            if self._trouble is None:
                _log.warning("the issuer's keys cannot be fetched: %s", error)
            self._trouble = type(error).__name__
            if self._seen_at is not None and self._clock() - self._seen_at >= self._keep:
                self._replace({})
            return
        self._trouble = None
        self._seen_at = self._clock()
        self._replace(found)

    def _replace(self, found: dict[str, Any]) -> None:
        gone = frozenset(kid for kid, key in self._keys.items() if kid not in found or found[kid] != key)
        self._keys = found
        if gone:
            _log.warning("keys of the issuer are no longer trusted: %s", ", ".join(sorted(gone)))
            for hear in self._listeners:
                hear(gone)

    async def _fetch(self) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(self._url) as answer:
            answer.raise_for_status()
            return _parse(await _read(answer))


def _parse(body: bytes) -> dict[str, Any]:
    document = msgspec.json.decode(body, type=dict[str, Any])
    if document.get("keys") == []:  # an answer like any other: nothing is trusted any more
        return {}
    return {key.key_id: key.key for key in jwt.PyJWKSet.from_dict(document).keys if key.key_id}


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > MAX_BYTES:
            raise ValueError("no JWKS is that large")
    return body
