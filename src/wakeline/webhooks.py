"""For those who receive wake events over HTTP: is this request from the server that we subscribed at?

    event = verify(await request.read(), request.headers, key)

`key` is the `signing_key` that subscribing answered.  An event may come more than once: `eventId` is the same on every
attempt.  Answer quickly and work later; a 4xx stops the subscription until it is resumed.  docs/guides/webhooks.md has
a whole receiver.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

import msgspec

from wakeline.core.instant import SECOND, from_datetime
from wakeline.core.signature import VERSION, decode_key, plain, standard

__all__ = ["BadSignature", "Malformed", "TooOld", "Unverified", "WakeEvent", "verify"]

Key = str | bytes
TOLERANCE = timedelta(minutes=5)
_DIGITS = 15


class Unverified(ValueError):
    """This request must not be acted on."""


class Malformed(Unverified):
    """It lacks what a signed wake event has."""


class BadSignature(Unverified):
    """None of the keys made its signature."""


class TooOld(Unverified):
    """It was signed too long ago, or in the future: perhaps somebody kept it and sends it again."""


class WakeEvent(TypedDict):
    schemaVersion: str
    eventType: str
    eventId: str
    logId: int
    agentIdentity: str
    subscriptionId: str
    payload: dict[str, Any]
    emittedAt: str


_decode = msgspec.json.Decoder(WakeEvent).decode


def verify(
    body: bytes,
    headers: Mapping[str, str],
    key: Key | Sequence[Key],
    *,
    tolerance: timedelta = TOLERANCE,
    now: datetime | None = None,
) -> WakeEvent:
    """The event, if one of the keys signed these very bytes lately; raises `Unverified` otherwise.

    Standard Webhooks headers are preferred.  Without them the `X-Neo-Wake-Signature` is taken; it signs no time of its
    own, so then the event's `emittedAt` must be recent.
    """
    keys = [_bytes(one) for one in ([key] if isinstance(key, str | bytes) else key)]
    given = {name.lower(): value for name, value in headers.items()}
    moment = _now() if now is None else from_datetime(now)
    if "webhook-signature" in given:
        timestamp = _verify_standard(body, given, keys)
        _check_age(timestamp * SECOND, moment, tolerance)
        return _event(body)
    _verify_plain(body, given, keys)
    event = _event(body)
    _check_age(_instant(event["emittedAt"]), moment, tolerance)
    return event


def _verify_standard(body: bytes, given: Mapping[str, str], keys: Sequence[bytes]) -> int:
    event_id, timestamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    if not event_id or not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= _DIGITS):
        raise Malformed("'webhook-id' and 'webhook-timestamp' must come with 'webhook-signature'")
    expected = [standard(key, event_id, int(timestamp), body) for key in keys]
    _require(expected, [word for word in given["webhook-signature"].split() if word.startswith(f"{VERSION},")])
    return int(timestamp)


def _verify_plain(body: bytes, given: Mapping[str, str], keys: Sequence[bytes]) -> None:
    if "x-neo-wake-signature" not in given:
        raise Malformed("there is neither a 'webhook-signature' nor an 'X-Neo-Wake-Signature'")
    _require([plain(key, body) for key in keys], [given["x-neo-wake-signature"].strip()])


def _require(expected: Sequence[str], found: Sequence[str]) -> None:
    """Every pair is compared whole, so that the time taken tells nothing."""
    equal = [hmac.compare_digest(ours.encode(), theirs.encode()) for ours in expected for theirs in found]
    if not any(equal):
        raise BadSignature("no key made this signature")


def _check_age(signed: int, now: int, tolerance: timedelta) -> None:
    if abs(now - signed) > tolerance // timedelta(microseconds=1):
        raise TooOld(f"it was not signed within {tolerance.total_seconds():g} s of now")


def _event(body: bytes) -> WakeEvent:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"the body is not a wake event: {error}") from error


def _instant(text: str) -> int:
    try:
        return from_datetime(datetime.fromisoformat(text))
    except (ValueError, TypeError) as error:
        raise Malformed("'emittedAt' is not an instant") from error


def _bytes(key: Key) -> bytes:
    return key if isinstance(key, bytes) else decode_key(key)


def _now() -> int:
    from wakeline.runtime import clock  # noqa: PLC0415 - the one module that reads the clock, only where nobody gave one

    return clock.now()
