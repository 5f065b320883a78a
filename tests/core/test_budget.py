from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.core.views import view
from wakeline import wire
from wakeline.core.budget import CHARACTERS_PER_TOKEN, OVERHEAD, estimate, fit

mail = st.lists(
    st.builds(
        lambda body, subject, metadata: view(1, body, subject=subject, metadata=metadata),
        st.text(max_size=400),
        st.none() | st.text(max_size=40),
        st.none() | st.dictionaries(st.text(max_size=8), st.text(max_size=100), max_size=3),
    ),
    max_size=8,
)


@given(mail, st.integers(1, 1000))
def test_what_fits_is_a_prefix_within_the_budget(views: list[wire.MessageView], max_tokens: int) -> None:
    kept = fit(views, max_tokens)
    if kept and not kept[0].body_truncated:
        assert kept == views[: len(kept)]
        assert sum(estimate(one) for one in kept) <= max_tokens
    if len(kept) < len(views) and kept and not kept[0].body_truncated:
        following = views[len(kept)]
        assert sum(estimate(one) for one in kept) + estimate(following) > max_tokens


@given(mail, st.integers(1, 1000))
def test_reading_always_gets_on(views: list[wire.MessageView], max_tokens: int) -> None:
    assert bool(fit(views, max_tokens)) == bool(views)


@given(mail)
def test_without_a_budget_everything_comes_whole(views: list[wire.MessageView]) -> None:
    assert fit(views, None) == views


@given(st.text(min_size=1, max_size=4000), st.integers(1, 500))
def test_a_first_message_that_is_too_large_comes_cut(body: str, max_tokens: int) -> None:
    [kept] = fit([view(1, body), view(2)], max_tokens)[:1]
    room = max(0, (max_tokens - OVERHEAD) * CHARACTERS_PER_TOKEN)
    if estimate(view(1, body)) <= max_tokens:
        assert (kept.body, kept.body_truncated) == (body, False)
    else:
        assert (kept.body, kept.body_truncated) == (body[:room], True)


def test_a_cut_message_keeps_everything_but_its_bulk() -> None:
    whole = view(7, "x" * 4000, subject="about x", tags=["todo"], metadata={"log": "y" * 4000})
    [kept] = fit([whole], 100)
    assert (kept.message_id, kept.seq, kept.subject, kept.tags) == ("m7", 7, "about x", ["todo"])
    assert kept.metadata is None
    assert estimate(kept) <= 100


def test_metadata_costs_tokens_too() -> None:
    assert estimate(view(1, metadata={"log": "y" * 4000})) > estimate(view(1)) + 900
