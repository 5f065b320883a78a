from __future__ import annotations

import pytest

from wakeline.core import chain
from wakeline.core.chain import MOST_HOPS, Chain
from wakeline.core.instant import SECOND
from wakeline.core.records import Cause

ROOT = "0" * 26
AB = chain.text(Chain(ROOT, ("@a", "@b")))

# who goes on, whether in another thread → the hops then
CARRIED = {
    "a dialogue in one thread is no hop": ("@c", False, ("@a", "@b")),
    "another thread is a hop": ("@c", True, ("@a", "@b", "@c")),
    "coming back is a hop like any other": ("@a", True, ("@a", "@b", "@a")),
    "so is going on alone": ("@b", True, ("@a", "@b", "@b")),
}


@pytest.mark.parametrize(("sender", "elsewhere", "hops"), CARRIED.values(), ids=CARRIED.keys())
def test_a_chain_grows_by_a_hop_into_another_thread(sender: str, elsewhere: bool, hops: tuple[str, ...]) -> None:  # noqa: FBT001 - a row of the table
    text, grown = chain.carried(AB, sender, elsewhere=elsewhere)
    assert chain.parse(text) == Chain(ROOT, hops)
    assert grown == (len(hops) - 1 if elsewhere else 0)


def test_a_chain_is_named_by_who_carried_it() -> None:
    assert str(Chain(ROOT, ("@a", "@b", "@c", "@a"))) == "@a → @b → @c → @a"


def test_a_chain_is_bounded() -> None:
    text = AB
    for number in range(3 * MOST_HOPS):
        text, _ = chain.carried(text, f"@{number}", elsewhere=True)
    assert len(chain.parse(text).hops) == MOST_HOPS
    assert chain.parse(text).hops[-1] == f"@{3 * MOST_HOPS - 1}"


# seconds since it was taken up, minutes that count → is it the cause
RECENT = {
    "just now": (0, 15, True),
    "within the time": (899, 15, True),
    "at its end": (900, 15, False),
    "a clock set back a little": (-60, 15, True),
    "a clock set back a day": (-86_400, 15, False),
    "only replies count": (0, 0, False),
}


@pytest.mark.parametrize(("seconds", "minutes", "is_cause"), RECENT.values(), ids=RECENT.keys())
def test_what_was_taken_up_is_the_cause_for_a_while(seconds: int, minutes: int, is_cause: bool) -> None:  # noqa: FBT001 - a row of the table
    cause = Cause(1, "@a", "", ROOT, ROOT, AB, 1_000_000 * SECOND)
    assert chain.is_recent(cause, (1_000_000 + seconds) * SECOND, minutes) is is_cause
