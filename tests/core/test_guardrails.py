from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeline.core.guardrail import Guardrails, check_size, check_tags, take
from wakeline.core.principal import AUDITOR, COORDINATOR, HUMAN_ROLE, PARTICIPANT, Caller, Kind
from wakeline.core.records import Bucket
from wakeline.errors import Forbidden, RateLimited, TooLarge

MILLION = 1_000_000
rates = st.builds(
    lambda rate, burst: Guardrails(rate_per_second=rate, rate_burst=burst),
    st.integers(1, 10_000),
    st.integers(1, 10_000),
)


def drain(rails: Guardrails, moments: list[int]) -> tuple[list[int], list[Bucket]]:
    """The moments at which a message was let through, and the bucket after each attempt that was."""
    bucket: Bucket | None = None
    passed: list[int] = []
    buckets: list[Bucket] = []
    for now in moments:
        try:
            bucket = take(bucket, 1, "@a", rails, now)
        except RateLimited:
            continue
        passed.append(now)
        buckets.append(bucket)
    return passed, buckets


@given(rates, st.lists(st.integers(0, 10 * MILLION), max_size=200))
def test_a_bucket_is_never_negative_and_never_fuller_than_its_burst(rails: Guardrails, moments: list[int]) -> None:
    _, buckets = drain(rails, moments)  # also with a clock that goes back
    for bucket in buckets:
        assert 0 <= bucket.level <= (rails.rate_burst - 1) * MILLION


@pytest.mark.guarantee("G-RATE")
@given(rates, st.lists(st.integers(0, 10 * MILLION), max_size=200).map(sorted))
def test_no_stretch_of_time_passes_more_than_the_burst_and_what_was_refilled(
    rails: Guardrails, moments: list[int]
) -> None:
    passed, _ = drain(rails, moments)
    for first, since in enumerate(passed):
        for last in range(first, len(passed)):
            refilled = (passed[last] - since) * rails.rate_per_second
            assert (last - first + 1) * MILLION <= rails.rate_burst * MILLION + refilled


@given(rates)
def test_exactly_the_burst_passes_at_once(rails: Guardrails) -> None:
    passed, _ = drain(rails, [5] * (rails.rate_burst + 3))
    assert len(passed) == rails.rate_burst


@given(rates, st.integers(0, 10**15))
def test_after_the_time_that_the_refusal_names_one_more_passes(rails: Guardrails, now: int) -> None:
    empty = Bucket(1, "@a", 0, now)
    with pytest.raises(RateLimited) as caught:
        take(empty, 1, "@a", rails, now)
    wait = caught.value.details["retry_after_seconds"]
    # It is told in milliseconds, so a retry that is half of one early may be refused once more.
    take(empty, 1, "@a", rails, now + round(wait * MILLION) + 500)


@given(rates, st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_clock_that_was_set_back_counts_from_where_it_is(rails: Guardrails, now: int, back: int) -> None:
    bucket = Bucket(1, "@a", MILLION, now)
    left = min(rails.rate_burst * MILLION, MILLION + back * rails.rate_per_second) - MILLION
    assert take(bucket, 1, "@a", rails, now - back) == Bucket(1, "@a", left, now - back)


RAILS = Guardrails(subject_limit=5, body_limit=8)


@pytest.mark.parametrize(
    ("subject", "body", "code"),
    [
        (None, "", None),
        ("12345", "12345678", None),
        ("äöüäö", "", None),  # a subject is counted in characters
        ("123456", "", "SUBJECT_TOO_LONG"),
        (None, "123456789", "BODY_TOO_LARGE"),
        (None, "ääää", None),  # a body is counted in bytes
        (None, "ääääa", "BODY_TOO_LARGE"),
        (None, "🙂🙂", None),
        (None, "🙂🙂.", "BODY_TOO_LARGE"),
    ],
)
def test_size_is_counted_in_characters_and_bytes(subject: str | None, body: str, code: str | None) -> None:
    if code is None:
        check_size(subject, body, RAILS)
        return
    with pytest.raises(TooLarge) as caught:
        check_size(subject, body, RAILS)
    assert caught.value.code == code
    assert caught.value.details["limit"] in (5, 8)


@given(st.text(max_size=12))
def test_a_body_passes_exactly_when_its_bytes_fit(body: str) -> None:
    fits = len(body.encode()) <= RAILS.body_limit
    try:
        check_size(None, body, RAILS)
    except TooLarge:
        assert not fits
    else:
        assert fits


@pytest.mark.parametrize(
    ("kind", "role", "allowed"),
    [
        (Kind.AGENT, PARTICIPANT, False),
        (Kind.AGENT, AUDITOR, False),
        (Kind.AGENT, "reviewer", False),
        (Kind.AGENT, COORDINATOR, True),
        (Kind.HUMAN, HUMAN_ROLE, True),
    ],
)
def test_restricted_tags_are_for_coordinators_and_humans(kind: Kind, role: str, *, allowed: bool) -> None:
    caller = Caller(1, "default", "@a", kind, role)
    check_tags(["todo"], caller, Guardrails())
    if allowed:
        check_tags(["todo", "override"], caller, Guardrails())
        return
    with pytest.raises(Forbidden) as caught:
        check_tags(["todo", "override"], caller, Guardrails())
    assert (caught.value.code, caught.value.details["rule"]) == ("RESTRICTED_TAG", "restricted_tags")
