from __future__ import annotations

import pytest

from wakeline.core import waits
from wakeline.core.records import Wait
from wakeline.core.waits import Edge

# who waits for whom already; who asks whom; the circle
CYCLES: dict[str, tuple[list[Edge], str, list[str], list[str] | None]] = {
    "nobody waits": ([], "@a", ["@b"], None),
    "asking each other": ([("@b", ["@a"])], "@a", ["@b"], ["@a", "@b", "@a"]),
    "through a third": ([("@b", ["@c"]), ("@c", ["@a"])], "@a", ["@b"], ["@a", "@b", "@c", "@a"]),
    "a line is no circle": ([("@b", ["@c"])], "@a", ["@b"], None),
    "asking oneself": ([], "@a", ["@a"], ["@a", "@a"]),
    "one of those asked is free": ([("@b", ["@a"])], "@a", ["@b", "@c"], None),
    "all of those asked wait": ([("@b", ["@a"]), ("@c", ["@a"])], "@a", ["@b", "@c"], ["@a", "@b", "@a"]),
    "whoever waits for me may still be answered by another": ([("@b", ["@a", "@d"])], "@a", ["@b"], None),
    "unless that one waits for me too": (
        [("@b", ["@d", "@a"]), ("@d", ["@a"])], "@a", ["@b"], ["@a", "@b", "@d", "@a"],
    ),
    "a circle of others is not mine": ([("@b", ["@c"]), ("@c", ["@b"])], "@a", ["@b"], None),
    "nobody is asked": ([], "@a", [], None),
    "an asker with two questions is stuck on one": (
        [("@b", ["@d"]), ("@b", ["@a"])], "@a", ["@b"], ["@a", "@b", "@a"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("edges", "asker", "asked", "circle"), CYCLES.values(), ids=CYCLES.keys())
def test_a_wait_that_nobody_could_end_is_a_circle(
    edges: list[Edge], asker: str, asked: list[str], circle: list[str] | None
) -> None:
    assert waits.cycle(asker, asked, edges) == circle
    assert waits.cycle(asker, asked, edges[::-1]) == circle


def test_only_waits_that_hold_count() -> None:
    rows = [Wait(1, name, "@a", '["@b"]', until) for name, until in (("holds", 11), ("over", 10), ("answered", 99))]
    assert waits.live(rows, {"answered"}, 10) == [("@a", ["@b"])]


def test_a_long_line_of_waits_is_followed_to_its_end() -> None:
    line: list[Edge] = [(f"@{n}", [f"@{n + 1}"]) for n in range(500)]
    circle = waits.cycle("@500", ["@0"], line)
    assert circle is not None
    assert len(circle) == 502
