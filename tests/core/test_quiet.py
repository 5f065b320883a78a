from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeline.core.instant import from_datetime, to_datetime
from wakeline.core.quiet import check, parse, quiet_until
from wakeline.errors import InvalidArgument
from wakeline.wire import QuietHours

HOUR = 3_600_000_000
DAY = 24 * HOUR


def at(text: str) -> int:
    return from_datetime(datetime.fromisoformat(text).astimezone(UTC))


def hours(begin: str, until: str, zone: str = "UTC") -> str:
    return check(QuietHours(from_=begin, until=until, time_zone=zone))


NIGHT = hours("22:00", "07:00")
BERLIN = hours("22:00", "07:00", "Europe/Berlin")
LUNCH = hours("12:00", "13:30")
SMALL = hours("22:00", "02:30", "Europe/Berlin")  # ends at an hour that is skipped or comes twice
LATE = hours("02:30", "05:00", "Europe/Berlin")  # begins at one


@pytest.mark.parametrize(
    ("quiet", "dnd", "now", "until"),
    [
        (None, None, "2026-01-10T12:00Z", None),
        (LUNCH, None, "2026-01-10T11:59:59Z", None),
        (LUNCH, None, "2026-01-10T12:00Z", "2026-01-10T13:30Z"),
        (LUNCH, None, "2026-01-10T13:29:59Z", "2026-01-10T13:30Z"),
        (LUNCH, None, "2026-01-10T13:30Z", None),
        # across midnight
        (NIGHT, None, "2026-01-10T21:59:59Z", None),
        (NIGHT, None, "2026-01-10T22:00Z", "2026-01-11T07:00Z"),
        (NIGHT, None, "2026-01-10T23:59:59Z", "2026-01-11T07:00Z"),
        (NIGHT, None, "2026-01-11T00:00Z", "2026-01-11T07:00Z"),
        (NIGHT, None, "2026-01-11T06:59:59Z", "2026-01-11T07:00Z"),
        (NIGHT, None, "2026-01-11T07:00Z", None),
        (NIGHT, None, "2025-12-31T23:00Z", "2026-01-01T07:00Z"),
        # the principal's own clock
        (BERLIN, None, "2026-01-10T21:30+01:00", None),
        (BERLIN, None, "2026-01-10T20:30Z", None),
        (BERLIN, None, "2026-01-10T21:00Z", "2026-01-11T06:00Z"),
        (BERLIN, None, "2026-07-10T20:00Z", "2026-07-11T05:00Z"),
        (hours("22:00", "07:00", "Asia/Kathmandu"), None, "2026-01-10T16:15Z", "2026-01-11T01:15Z"),
        # the night in which an hour is skipped (29 March 2026) is shorter, the one with two (25 October) longer
        (BERLIN, None, "2026-03-28T22:00Z", "2026-03-29T05:00Z"),
        (BERLIN, None, "2026-10-24T21:00Z", "2026-10-25T06:00Z"),
        # 02:30 does not exist: by the clock before the jump it is 01:30 UTC
        (SMALL, None, "2026-03-29T00:00Z", "2026-03-29T01:30Z"),
        (LATE, None, "2026-03-29T01:29Z", None),
        (LATE, None, "2026-03-29T01:30Z", "2026-03-29T03:00Z"),
        # 02:30 comes twice: quiet begins with the first and ends with the second
        (SMALL, None, "2026-10-25T00:45Z", "2026-10-25T01:30Z"),
        (LATE, None, "2026-10-25T00:30Z", "2026-10-25T04:00Z"),
        # do not disturb, alone and together
        (None, "2026-01-10T13:00Z", "2026-01-10T12:00Z", "2026-01-10T13:00Z"),
        (None, "2026-01-10T13:00Z", "2026-01-10T13:00Z", None),
        (None, "2026-01-10T13:00Z", "2026-01-11T12:00Z", None),
        (LUNCH, "2026-01-10T12:30Z", "2026-01-10T12:15Z", "2026-01-10T13:30Z"),  # the longer one
        (LUNCH, "2026-01-10T15:00Z", "2026-01-10T12:15Z", "2026-01-10T15:00Z"),
        (LUNCH, "2026-01-10T12:30Z", "2026-01-10T11:00Z", "2026-01-10T13:30Z"),  # one leads into the other
        (LUNCH, "2026-01-10T12:00Z", "2026-01-10T11:00Z", "2026-01-10T13:30Z"),  # without a gap
        (LUNCH, "2026-01-10T11:59Z", "2026-01-10T11:00Z", "2026-01-10T11:59Z"),  # with one
    ],
)
def test_until_when_it_is_quiet(quiet: str | None, dnd: str | None, now: str, until: str | None) -> None:
    found = quiet_until(quiet, None if dnd is None else at(dnd), at(now))
    assert (None if found is None else to_datetime(found)) == (None if until is None else to_datetime(at(until)))


clocks = st.builds(lambda hour, minute: f"{hour:02d}:{minute:02d}", st.integers(0, 23), st.integers(0, 59))
zones = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Tehran", "Africa/Cairo"]
)
instants = st.integers(at("2024-01-01T00:00Z"), at("2030-01-01T00:00Z"))
windows = (
    st.tuples(clocks, clocks, zones).filter(lambda window: window[0] != window[1]).map(lambda window: hours(*window))
)
dnds = st.one_of(st.none(), instants)


@pytest.mark.guarantee("G-QUIET-END")
@given(st.one_of(st.none(), windows), dnds, instants, st.floats(0, 1, exclude_max=True))
def test_the_quiet_ends_when_it_says_and_not_before(quiet: str | None, dnd: int | None, now: int, part: float) -> None:
    end = quiet_until(quiet, dnd, now)
    if end is None:
        return
    assert end > now
    assert quiet_until(quiet, dnd, end) is None  # nobody holds a wake until an hour at which it is still quiet
    assert quiet_until(quiet, dnd, now + int((end - now) * part)) == end


@given(windows, instants)
def test_a_daily_quiet_comes_every_day_and_leaves_every_day(quiet: str, now: int) -> None:
    seen = {quiet_until(quiet, None, now + step * HOUR // 4) is None for step in range(8 * 24)}
    end = quiet_until(quiet, None, now)
    assert end is None or end - now <= 2 * DAY
    window = parse(quiet)
    assert window is not None
    if all(text.endswith(("00", "15", "30", "45")) for text in (window.from_, window.until)):
        assert False in seen


@given(dnds, instants)
def test_without_hours_only_do_not_disturb_counts(dnd: int | None, now: int) -> None:
    assert quiet_until(None, dnd, now) == (dnd if dnd is not None and dnd > now else None)


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Europe", "Europe/Berlin\0", "x" * 300, "é"]
)
def test_a_zone_that_nobody_knows_is_refused(zone: str) -> None:
    with pytest.raises(InvalidArgument):
        hours("22:00", "07:00", zone)


def test_hours_that_never_end_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        hours("07:00", "07:00")


def test_a_zone_that_got_lost_is_read_as_utc() -> None:
    quiet = NIGHT.replace('"UTC"', '"Mars/Olympus"')
    assert quiet_until(quiet, None, at("2026-01-10T23:00Z")) == at("2026-01-11T07:00Z")
