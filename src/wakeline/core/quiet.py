"""Quiet hours and do-not-disturb: until when a principal is not to be woken.

Quiet hours are wall-clock times in the principal's own time zone, so the zone's rules decide what they are on the days
on which clocks change.  Where a time exists twice or not at all, the quiet lasts until the later reading: being woken
an hour late is better than an hour early.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec

from wakeline.core.instant import from_datetime, to_datetime
from wakeline.errors import InvalidArgument
from wakeline.wire import QuietHours

_DAY = timedelta(days=1)


_decode = msgspec.json.Decoder(QuietHours).decode


def check(hours: QuietHours) -> str:
    """The hours as they are stored, if they make sense."""
    if _clock(hours.from_) == _clock(hours.until):
        raise InvalidArgument(
            "INVALID_ARGUMENT", "Quiet hours cannot end when they begin.", "For a while without wakes, do not disturb."
        )
    if _zone(hours.time_zone) is None:
        raise InvalidArgument(
            "INVALID_ARGUMENT",
            f"There is no time zone {hours.time_zone[:80]!r}.",
            "Use a name of the IANA database, such as Europe/Berlin or UTC.",
        )
    return msgspec.json.encode(hours).decode()


def parse(quiet: str | None) -> QuietHours | None:
    return None if quiet is None else _decode(quiet)


def quiet_until(quiet: str | None, dnd_until: int | None, now: int) -> int | None:
    """The end of the present quiet; None if there is none.  One that begins where another ends is the same quiet."""
    end, hours = now, parse(quiet)
    while True:
        later = max(dnd_until or 0, (_end(hours, end) if hours is not None else None) or 0)
        if later <= end:
            return end if end > now else None
        end = later


def _end(hours: QuietHours, now: int) -> int | None:
    """The end of the daily quiet that `now` lies in.  It began today or, across midnight, yesterday."""
    zone = _zone(hours.time_zone) or UTC  # a zone that this machine's data lost: a quiet at odd hours beats none
    begin, until = _clock(hours.from_), _clock(hours.until)
    today = to_datetime(now).astimezone(zone).date()
    for day in (today - _DAY, today):
        last = day if begin < until else day + _DAY
        ends = max(_instant(last, until, zone, fold=0), _instant(last, until, zone, fold=1))
        if _instant(day, begin, zone, fold=0) <= now < ends:
            return ends
    return None


def _instant(day: date, at: time, zone: tzinfo, *, fold: int) -> int:
    return from_datetime(datetime.combine(day, at.replace(fold=fold), zone).astimezone(UTC))


@lru_cache(maxsize=256)
def _clock(text: str) -> time:
    return time.fromisoformat(text)


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; no name of a zone; a directory of the database
        return None
