"""The webhook route: POST the exact bytes of an event to a URL, signed, and say what came of it.

The receiver may be hostile, broken or slow, and so may whoever chose the URL.  Everything has a bound: the time of the
whole attempt, the connections to one host and to all, the bytes of the answer (`exchange.py`).  Who waits for a host
has none of the connections that others may have.  Redirects are not followed, no
proxy, cookie or credential of ours is used, and every connection is new.  A name is refused as soon as one of its
addresses is, and what is connected to is the very address that was checked, so there is nothing between the check and
the connection that a changing name could use.

While a wake is still being written its receiver can be called already (`prepare`): nothing is said until `release` or
`deliver`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import NamedTuple
from weakref import WeakValueDictionary

from yarl import URL

from wakeline.adapters.exchange import Answer, BadAnswer, Exchange, connect
from wakeline.core.destination import Network, check_address, check_url
from wakeline.core.instant import SECOND, to_datetime
from wakeline.core.parcel import Accepted, Failed, Parcel, Refused, Result, bounded
from wakeline.core.signature import signed_headers
from wakeline.errors import Forbidden

CONNECTIONS = 256
KEPT = 1_024  # URLs, and addresses
LAST_STATUS = 600
PREPARED_SECONDS = 2.0  # for what is never sent after all
SECRET_LENGTH = 6  # what is shorter is no secret, and could be part of any word
SECONDS = re.compile(r"[0-9]{1,9}")
SIGNATURES = ("webhook-signature", "X-Neo-Wake-Signature")

Resolve = Callable[[str, int], Awaitable[list[str]]]  # a name and a port into addresses


class HostBusy(Exception):
    pass


class NameUnknown(OSError):
    pass


class AddressRefused(OSError):
    pass


class Letter(NamedTuple):
    """An attempt, ready to be sent."""

    url: URL
    headers: dict[str, str]
    request: bytes

    def conceal(self, text: str) -> str:
        """As evidence, without what nobody else may know of it."""
        return bounded(text, _secrets(self.url, self.headers))


class Webhooks:
    """`now` in microseconds.  `resolve` and `tls` replace the system's, for those who have their own."""

    def __init__(
        self,
        now: Callable[[], int],
        *,
        allowed: Sequence[Network] = (),
        connections_per_host: int = 4,
        user_agent: str = "Wakeline",
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._now = now
        # What was found about a URL or an address says the same the next time; a name is looked up every time.
        self._check_url = lru_cache(KEPT)(partial(check_url, allowed=tuple(allowed)))
        self._check_address = lru_cache(KEPT)(partial(_check, allowed=tuple(allowed)))
        self._connections_per_host = connections_per_host
        self._user_agent = user_agent
        self._resolve = resolve or _resolve
        self._tls = tls or ssl.create_default_context()
        self._lines = asyncio.Semaphore(CONNECTIONS)  # to all hosts together
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # by host and port
        self._prepared: dict[str, tuple[Letter, asyncio.Task[Exchange]]] = {}  # by delivery

    async def close(self) -> None:
        for delivery_id in list(self._prepared):
            self._put_back(delivery_id)

    def prepare(self, parcel: Parcel) -> None:
        """Call the receiver of what will probably be delivered in a moment."""
        letter = self._letter(parcel)
        if isinstance(letter, Letter) and not self._lines.locked() and not self._slot(letter.url).locked():
            loop = asyncio.get_running_loop()
            line = loop.create_task(self._dial(letter.url, loop.time() + parcel.timeout.total_seconds()))
            self._prepared[parcel.delivery_id] = letter, line
            loop.call_later(PREPARED_SECONDS, self._put_back, parcel.delivery_id)

    def release(self, delivery_id: str) -> None:
        """It is stored: say it to who has picked up already.  `deliver` hears the answer."""
        letter, line = self._prepared.get(delivery_id, (None, None))
        if letter is not None and line is not None and line.done() and not line.cancelled() and not line.exception():
            line.result().say(letter.request)

    def _put_back(self, delivery_id: str) -> None:
        """It was not sent after all."""
        _, line = self._prepared.pop(delivery_id, (None, None))
        if line is not None and not line.cancel() and line.exception() is None:
            line.result().hang_up()

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
        letter, line = self._prepared.pop(parcel.delivery_id, None) or (self._letter(parcel), None)
        if not isinstance(letter, Letter):
            return letter, ""
        by = asyncio.get_running_loop().time() + parcel.timeout.total_seconds()
        exchange: Exchange | None = None
        try:
            exchange = await (line or self._dial(letter.url, by))
            async with asyncio.timeout_at(by):
                answer = await exchange.ask(letter.request)
        except HostBusy:
            return Failed("host_busy", "No connection was free in time."), ""
        except TimeoutError:
            return Failed("timeout", f"No answer within {parcel.timeout.total_seconds():g} s."), ""
        except (OSError, BadAnswer) as error:
            return _failure(error, letter), ""
        finally:
            if exchange is not None:
                exchange.hang_up()
        detail = letter.conceal(f"HTTP {answer.status} {answer.said}".strip())
        return _judge(answer, detail, to_datetime(self._now())), answer.said

    def _letter(self, parcel: Parcel) -> Letter | Failed:
        if not parcel.keys:
            return Failed("no_key", "There is no signing key, and nothing is sent unsigned.", retryable=False)
        try:
            url = self._check_url(parcel.url or "")
        except Forbidden as error:
            return Failed("address_refused", bounded(error.message), retryable=False)
        headers = self._headers(parcel)
        return Letter(url, headers, _request(url, headers, parcel.body))

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

    # -- connections --------------------------------------------------------------------------------------------------

    def _slot(self, url: URL) -> asyncio.Semaphore:
        """Kept for as long as somebody has it or waits for it."""
        return self._slots.setdefault(f"{url.raw_host}:{url.port}", asyncio.Semaphore(self._connections_per_host))

    async def _dial(self, url: URL, by: float) -> Exchange:
        slot = self._slot(url)
        await _take(slot, by)
        try:
            await _take(self._lines, by)
        except BaseException:
            slot.release()
            raise
        try:
            async with asyncio.timeout_at(by):
                exchange = await self._connect(url)
        except BaseException:
            self._give_back(slot)
            raise
        exchange.closed.add_done_callback(lambda _closed: self._give_back(slot))
        return exchange

    def _give_back(self, slot: asyncio.Semaphore) -> None:
        slot.release()
        self._lines.release()

    async def _connect(self, url: URL) -> Exchange:
        """To the first address that takes it, if none of them is refused."""
        name, port = url.raw_host or "", url.port or 0
        addresses = await self._addresses(name, port)
        for address in addresses:
            self._check_address(address)
        tls = self._tls if url.scheme == "https" else None
        for address in addresses[:-1]:
            try:
                return await connect(address, port, tls, name)
            except ssl.SSLError:
                raise
            except OSError:
                continue
        return await connect(addresses[-1], port, tls, name)

    async def _addresses(self, name: str, port: int) -> list[str]:
        literal = _literal(name)
        if literal is not None:
            return [literal]
        try:
            found = await self._resolve(name, port)
        except OSError as error:
            raise NameUnknown(f"The name cannot be resolved: {error}") from error
        if not found:
            raise NameUnknown("The name has no address.")
        return found


async def _take(slot: asyncio.Semaphore, by: float) -> None:
    if not slot.locked():
        await slot.acquire()  # which does not wait: a timer would cost more than all the rest
        return
    try:
        async with asyncio.timeout_at(by):
            await slot.acquire()
    except TimeoutError:
        raise HostBusy from None


@lru_cache(KEPT)
def _literal(name: str) -> str | None:
    """The address that a name is itself."""
    try:
        return str(ip_address(name))
    except ValueError:
        return None


async def _resolve(name: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


def _check(address: str, allowed: Sequence[Network]) -> None:
    try:
        check_address(ip_address(address), allowed)
    except Forbidden as error:
        raise AddressRefused(error.message) from error


def _request(url: URL, headers: dict[str, str], body: bytes) -> bytes:
    lines = [
        f"POST {url.raw_path_qs} HTTP/1.1",
        f"Host: {url.host_port_subcomponent}",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"Content-Length: {len(body)}",
        "Connection: close",
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


def _echoes(said: str, challenge: str) -> bool:
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        return False
    echo = found.get("challenge") if isinstance(found, dict) else None
    return isinstance(echo, str) and hmac.compare_digest(echo.encode("utf-8", "replace"), challenge.encode())


def _judge(answer: Answer, detail: str, now: datetime) -> Result:
    """The wake protocol makes every 4xx final, also 429; a receiver that wants to be asked again says 503."""
    status = answer.status
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return Accepted(status, detail)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return Refused(status, "redirect", detail)
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return Refused(status, "rejected", detail)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return Failed("server_error", detail, pause=_pause(answer.headers.get("retry-after", ""), now))
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


def _failure(error: OSError | BadAnswer, letter: Letter) -> Failed:
    said = letter.conceal(str(error))
    match error:
        case AddressRefused():
            return Failed("address_refused", said, retryable=False)
        case NameUnknown():
            return Failed("name_unknown", said)
        case ssl.SSLError():
            return Failed("tls", said)
        case BadAnswer():
            return Failed("bad_answer", said)
        case _:
            return Failed("network", letter.conceal(f"{type(error).__name__}: {error}"))


def _secrets(url: URL, headers: dict[str, str]) -> tuple[str, ...]:
    """What must not come back in evidence, also when the receiver repeats it: the longest first."""
    signatures = [part for name in SIGNATURES for part in headers.get(name, "").split()]
    asked = [pair.partition("=")[2] for pair in url.raw_query_string.split("&")]
    words = {url.raw_query_string, *signatures, *asked, *url.query.values()}
    return tuple(sorted((word for word in words if len(word) >= SECRET_LENGTH), key=len, reverse=True))
