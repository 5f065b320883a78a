"""The one module that reads the real clock and the system's randomness."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime

from wakeline.core.ids import ulid


def now() -> int:
    """Microseconds since 1970, UTC."""
    return time.time_ns() // 1_000


def now_datetime() -> datetime:
    return datetime.now(UTC)


def request_ids() -> Callable[[], str]:
    """Ids for requests: unique to this process and cheap, because every request gets one."""
    prefix = os.urandom(6).hex()
    numbers = itertools.count(1)
    return lambda: f"{prefix}-{next(numbers):x}"


def new_key() -> bytes:
    """A signing key: 32 bytes that nobody can guess."""
    return os.urandom(32)


def new_id() -> str:
    return ulid(time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10)))
