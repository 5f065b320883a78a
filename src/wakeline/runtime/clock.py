"""The one module that reads the real clock and the system's randomness."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

from wakeline.core.ids import ulid


def now() -> int:
    """Microseconds since 1970, UTC."""
    return time.time_ns() // 1_000


def now_datetime() -> datetime:
    return datetime.now(UTC)


def new_id() -> str:
    return ulid(time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10)))
