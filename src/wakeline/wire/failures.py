"""The error envelope: the same on every face."""

from __future__ import annotations

from typing import Any

from wakeline.wire.common import Answer, Instant


class ErrorBody(Answer, frozen=True):
    code: str
    message: str
    hint: str
    details: dict[str, Any]
    retryable: bool


class ErrorAnswer(Answer, frozen=True):
    error: ErrorBody
    request_id: str
    occurred_at: Instant
