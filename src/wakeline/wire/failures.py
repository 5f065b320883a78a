"""The error envelope: the same on every face."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from wakeline.wire.common import Answer


class ErrorBody(Answer, frozen=True):
    code: str
    message: str
    hint: str
    details: dict[str, Any]
    retryable: bool


class ErrorAnswer(Answer, frozen=True):
    error: ErrorBody
    request_id: str
    occurred_at: datetime
