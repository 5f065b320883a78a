from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wakeline.core.parcel import DETAIL_BYTES, bounded


@given(st.text(max_size=3000))
def test_evidence_is_one_printable_line_within_its_bytes(text: str) -> None:
    kept = bounded(text)
    assert len(kept.encode()) <= DETAIL_BYTES
    assert all(sign.isprintable() for sign in kept)


def test_evidence_loses_its_secrets_before_it_is_cut() -> None:
    kept = bounded("x" * (DETAIL_BYTES - 3) + "secret", ("secret",))
    assert kept.endswith("***")
