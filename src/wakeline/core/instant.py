"""Instants: microseconds since 1970 in UTC, the same integer in code, in both databases and in comparisons.

The wire shows RFC 3339; `to_datetime` and `from_datetime` are the only two doors.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NewType

Instant = NewType("Instant", int)

SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_datetime(instant: int) -> datetime:
    return _EPOCH + timedelta(microseconds=instant)


def from_datetime(moment: datetime) -> Instant:
    return Instant((moment - _EPOCH) // _MICROSECOND)


def plus(instant: int, duration: timedelta) -> Instant:
    return Instant(instant + duration // _MICROSECOND)
