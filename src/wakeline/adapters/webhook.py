"""The webhook route: POST the exact bytes of an event to a URL, signed, and say what came of it.

The receiver may be hostile, broken or slow, and so may whoever chose the URL.  Everything has a bound: the time of the
whole attempt, the connections to one host, the bytes of the answer.  Redirects are not followed, no proxy,
cookie or credential of ours is used, and every connection is new.  The resolver refuses a name as soon as one of its
addresses is refused, and the socket is made for an address only after that very address was checked, so there is
nothing between the check and the connection that a changing name could use.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from wakeline.core.destination import Network, check_address, check_url
from wakeline.core.instant import SECOND, to_datetime
from wakeline.core.parcel import Accepted, Failed, Parcel, Refused, Result, bounded
from wakeline.core.signature import signed_headers
from wakeline.errors import Forbidden

ANSWER_BYTES = 65_536  # head and body
BODY_SECONDS = 1.0  # the status has decided by then; the rest is evidence
LAST_STATUS = 600
SECRET_LENGTH = 6  # what is shorter is no secret, and could be part of any word
SECONDS = re.compile(r"[0-9]{1,9}")
SIGNATURES = ("webhook-signature", "X-Neo-Wake-Signature")


class AddressRefused(OSError):
    """An OSError, because that is what a connector expects of a resolver and of a socket."""


class Webhooks:
    """`now` in microseconds.  `resolver` and `tls` replace the system's, for those who have their own."""

    def __init__(
        self,
        now: Callable[[], int],
        *,
        allowed: Sequence[Network] = (),
        connections_per_host: int = 4,
        user_agent: str = "Wakeline",
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._now = now
        self._allowed = tuple(allowed)
        self._connections_per_host = connections_per_host
        self._user_agent = user_agent
        self._resolver = resolver
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def deliver(self, parcel: Parcel) -> Result:
        return (await self._send(parcel))[0]

    async def verify(self, parcel: Parcel, challenge: str) -> Result:
        """Ask whoever owns the URL whether it wants what will come: it must say the challenge back."""
        result, said = await self._send(parcel)
        if isinstance(result, Accepted) and not _echoes(said, challenge):
            return Refused(result.status, "challenge_failed", "The challenge was not said back.")
        return result

    async def _send(self, parcel: Parcel) -> tuple[Result, str]:
        """What came of it, and what was answered."""
        if not parcel.keys:
            return Failed("no_key", "There is no signing key, and nothing is sent unsigned.", retryable=False), ""
        try:
            url = check_url(parcel.url or "", self._allowed)
        except Forbidden as error:
            return Failed("address_refused", bounded(error.message), retryable=False), ""
        return await self._post(parcel, url)

    async def _post(self, parcel: Parcel, url: URL) -> tuple[Result, str]:
        headers = self._headers(parcel)
        progress = SimpleNamespace(queued=False)
        secrets = _secrets(url, headers)
        timeout = aiohttp.ClientTimeout(parcel.timeout.total_seconds())
        try:
            async with self._connections().post(
                url,
                data=parcel.body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                trace_request_ctx=progress,
            ) as response:
                said = await _read(response)
                response.close()
                detail = bounded(f"HTTP {response.status} {said}".strip(), secrets)
                return _judge(response, detail, to_datetime(self._now())), said
        except TimeoutError:
            return Failed("host_busy", "No connection was free in time.") if progress.queued else _late(parcel), ""
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return _failure(error, secrets), ""

    def _headers(self, parcel: Parcel) -> dict[str, str]:
        """Only the timestamp, and with it a signature, differs between the attempts of one delivery."""
        timestamp = self._now() // SECOND
        return {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": self._user_agent,
            **signed_headers(
                parcel.event_id, parcel.subscription_id, timestamp, parcel.body, parcel.keys, callback=parcel.callback
            ),
        }

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = _Connector(
                limit=0,
                limit_per_host=self._connections_per_host,
                force_close=True,
                use_dns_cache=False,
                resolver=_CheckedResolver(self._resolver, self._allowed),
                socket_factory=self._make_socket,
                ssl=self._tls or ssl.create_default_context(),
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                trace_configs=[_watch_the_queue()],
            )
        return self._session

    def _make_socket(self, place: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, where = place
        _check(where[0], self._allowed)
        return socket.socket(family, kind, protocol)


class _BoundedAnswer(ResponseHandler):
    """Every byte of an answer comes through here, also what the parser would take without anybody reading: interim
    answers without end kept the event loop busy for seconds.  A connection carries one answer, so it has one budget.
    """

    left = ANSWER_BYTES

    def data_received(self, data: bytes) -> None:
        taken, self.left = data[: self.left], self.left - len(data)
        if taken or not data:
            super().data_received(taken)
        if self.left < 0 and self.transport is not None:
            self.left = 0
            self.set_exception(aiohttp.ClientPayloadError(f"The answer is longer than {ANSWER_BYTES} bytes."))
            self.transport.abort()


class _Connector(aiohttp.TCPConnector):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # No public door leads to it; a test would notice.
        self._factory = partial(_BoundedAnswer, loop=self._loop)  # type: ignore[assignment] # it is a ResponseHandler


class _CheckedResolver(AbstractResolver):
    def __init__(self, resolver: AbstractResolver | None, allowed: Sequence[Network]) -> None:
        self._resolver = resolver or aiohttp.ThreadedResolver()
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for one in found:
            _check(one["host"], self._allowed)
        return found

    async def close(self) -> None:
        await self._resolver.close()


def _check(address: str, allowed: Sequence[Network]) -> None:
    try:
        check_address(ip_address(address), allowed)
    except Forbidden as error:
        raise AddressRefused(error.message) from error


def _watch_the_queue() -> aiohttp.TraceConfig:
    """So that a host with too many connections is not blamed for an answer that it was never asked for."""
    watch = aiohttp.TraceConfig()

    async def start(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.queued = True

    async def end(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.queued = False

    watch.on_connection_queued_start.append(start)
    watch.on_connection_queued_end.append(end)
    return watch


async def _read(response: aiohttp.ClientResponse) -> str:
    """The beginning of the answer, as far as it comes: what is missing changes nothing about the status."""
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in response.content.iter_any():
                found += chunk
    except (aiohttp.ClientError, TimeoutError, OSError):
        return found.decode("utf-8", "replace")
    return found.decode("utf-8", "replace")


def _echoes(said: str, challenge: str) -> bool:
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        return False
    echo = found.get("challenge") if isinstance(found, dict) else None
    return isinstance(echo, str) and hmac.compare_digest(echo.encode("utf-8", "replace"), challenge.encode())


def _judge(response: aiohttp.ClientResponse, detail: str, now: datetime) -> Result:
    """The wake protocol makes every 4xx final, also 429; a receiver that wants to be asked again says 503."""
    status = response.status
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return Accepted(status, detail)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return Refused(status, "redirect", detail)
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return Refused(status, "rejected", detail)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Failed("server_error", detail, pause=_pause(response.headers.get("Retry-After", ""), now))
    known = HTTPStatus.INTERNAL_SERVER_ERROR <= status < LAST_STATUS
    return Failed("server_error" if known else "bad_answer", detail)


def _pause(retry_after: str, now: datetime) -> timedelta | None:
    """In seconds, or as a date; what is neither asks for nothing."""
    if SECONDS.fullmatch(retry_after):
        return timedelta(seconds=int(retry_after))
    try:
        until = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return None
    return max(timedelta(), until.replace(tzinfo=until.tzinfo or UTC) - now)


def _late(parcel: Parcel) -> Failed:
    return Failed("timeout", f"No answer within {parcel.timeout.total_seconds():g} s.")


def _failure(error: Exception, secrets: tuple[str, ...]) -> Failed:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, AddressRefused):
        return Failed("address_refused", bounded(str(cause), secrets), retryable=False)
    reason, said = _explain(error)
    return Failed(reason, bounded(said, secrets))


def _explain(error: Exception) -> tuple[str, str]:
    """The reason and the words for it: never an error's own text where that would show the whole URL."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "name_unknown", f"The name cannot be resolved: {error.os_error}"
        case aiohttp.ClientSSLError():
            return "tls", str(error)
        case aiohttp.ServerDisconnectedError():
            return "network", "The connection was closed before an answer."
        case aiohttp.ClientResponseError():
            return "bad_answer", error.message
        case aiohttp.ClientPayloadError() | ValueError():
            return "bad_answer", str(error)
        case _:
            return "network", f"{type(error).__name__}: {error}"


def _secrets(url: URL, headers: dict[str, str]) -> tuple[str, ...]:
    """What must not come back in evidence, also when the receiver repeats it: the longest first."""
    signatures = [part for name in SIGNATURES for part in headers.get(name, "").split()]
    asked = [pair.partition("=")[2] for pair in url.raw_query_string.split("&")]
    words = {url.raw_query_string, *signatures, *asked, *url.query.values()}
    return tuple(sorted((word for word in words if len(word) >= SECRET_LENGTH), key=len, reverse=True))
