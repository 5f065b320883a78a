"""One row per figure, kept in `results.json`; the table and the plot are made from it.

A run replaces the rows that it measured and keeps the others, so the long run's figures stay beside the short run's.
Each ratio is of two things measured in one run; rows of different runs are not to be compared with each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

FOLDER = Path(__file__).parent
JSON = FOLDER / "results.json"
TABLE = FOLDER / "results.md"
PLOT = FOLDER / "results.png"

Bound = Literal["at least", "at most"]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    ours: float
    reference: float
    ratio: float
    target: float | None
    bound: Bound | None
    met: bool | None
    unit: str
    note: str


def figure(
    name: str,
    ours: float,
    reference: float,
    unit: str,
    note: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Figure:
    """Judge one ratio.  Without a target it is there for information."""
    ratio = ours / reference
    target = at_most if at_least is None else at_least
    bound: Bound | None = None if target is None else "at most" if at_least is None else "at least"
    met = None if target is None else ratio >= target if bound == "at least" else ratio <= target
    return Figure(
        name=name,
        ours=_rounded(ours),
        reference=_rounded(reference),
        ratio=_rounded(ratio),
        target=target,
        bound=bound,
        met=met,
        unit=unit,
        note=note,
    )


def _rounded(value: float) -> float:
    """Four digits that mean something."""
    return float(f"{value:.4g}")


def load() -> list[Figure]:
    return msgspec.json.decode(JSON.read_bytes(), type=list[Figure]) if JSON.exists() else []


def merge(measured: list[Figure], order: list[str]) -> list[Figure]:
    """The rows of this run over those of earlier ones, in the order of the benchmarks that make them."""
    rows = {row.name: row for row in [*load(), *measured]}
    return sorted(rows.values(), key=lambda row: order.index(row.name.partition(":")[0]))


def write(rows: list[Figure]) -> None:
    JSON.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    TABLE.write_text(table(rows), encoding="utf-8")


def table(rows: list[Figure]) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`. Every ratio is ours ÷ reference, both measured in the same run, interleaved, as",
        "medians over its rounds. A row without a target is there for information.",
        "",
        "| figure | ours | reference | unit | ratio | target | met | note |",
        "|---|--:|--:|---|--:|--:|---|---|",
        *(_line(row) for row in rows),
        "",
    ]
    return "\n".join(lines)


def _line(row: Figure) -> str:
    met = "" if row.met is None else "yes" if row.met else "**no**"
    cells = (row.name, shown(row.ours), shown(row.reference), row.unit, shown(row.ratio), goal(row), met, row.note)
    return f"| {' | '.join(cells)} |"


def goal(row: Figure) -> str:
    if row.target is None:
        return ""
    return f"{'≥' if row.bound == 'at least' else '≤'} {row.target:g}"


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
