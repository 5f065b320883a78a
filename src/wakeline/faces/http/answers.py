"""Send answers: JSON of our types, errors from the one catalogue, always with a request id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from datetime import datetime
from http import HTTPStatus
from typing import Any

import msgspec

from wakeline import wire
from wakeline.errors import RateLimited, Unauthorized, Unavailable, WakelineError

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

encode = msgspec.json.Encoder().encode


async def send_bytes(send: Send, status: int, body: bytes, headers: Headers) -> None:
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def json_headers(request_id: str) -> Headers:
    return [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"x-request-id", request_id.encode()),
    ]


def error_body(error: WakelineError, request_id: str, now: datetime) -> bytes:
    return encode(
        wire.ErrorAnswer(
            error=wire.ErrorBody(
                code=error.code,
                message=error.message,
                hint=error.hint,
                details=error.details,
                retryable=error.retryable,
            ),
            request_id=request_id,
            occurred_at=now,
        )
    )


def error_wire(error: WakelineError, request_id: str, now: datetime) -> bytes:
    """A whole answer as it travels, for what never became a request."""
    body = error_body(error, request_id, now)
    headers = [*error_headers(error, request_id), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    head = b"HTTP/1.1 %d %s\r\n" % (error.status, HTTPStatus(error.status).phrase.encode())
    return head + b"".join(b"%s: %s\r\n" % header for header in headers) + b"\r\n" + body


def error_headers(error: WakelineError, request_id: str) -> Headers:
    headers = json_headers(request_id)
    if isinstance(error, Unauthorized):
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, RateLimited | Unavailable):
        wait = float(error.details.get("retry_after_seconds", 1))
        headers.append((b"retry-after", b"%d" % max(1, -(-wait // 1))))
    if "allow" in error.details:
        headers.append((b"allow", str(error.details["allow"]).encode()))
    return headers
