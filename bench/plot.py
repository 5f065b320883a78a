"""Draw how far each ratio is from its target, and the figures without one below."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib import pyplot as plt

from bench.results import PLOT, Figure, goal, shown

MET, MISSED, PLAIN = "#2a7f62", "#c0392b", "#7f8c8d"


def draw(rows: list[Figure]) -> None:
    mpl.use("Agg")
    shown_rows = list(reversed(rows))
    plot, axes = plt.subplots(figsize=(11, 1.4 + 0.36 * len(rows)), layout="constrained")
    colours = [PLAIN if row.met is None else MET if row.met else MISSED for row in shown_rows]
    lengths = [_margin(row) for row in shown_rows]
    axes.barh([row.name for row in shown_rows], [length - 1 for length in lengths], left=1, color=colours, height=0.6)
    axes.set_xscale("log")
    axes.set_xlim(min(0.45, *lengths) * 0.8, max(2.2, *lengths) * 1.9)
    axes.axvline(1, color="black", linewidth=1.2)
    for place, (row, length) in enumerate(zip(shown_rows, lengths, strict=True)):
        label = f" {shown(row.ratio)} ({goal(row) or 'no target'}) "
        axes.text(max(length, 1), place, label, va="center", ha="left", fontsize=9)
    ticks = [0.25, 0.5, 1, 2, 4, 8, 16, 32]
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in ticks if low <= tick <= high], minor=False)
    axes.set_xticklabels([f"{tick:g}" for tick in ticks if low <= tick <= high])
    axes.minorticks_off()
    axes.set_xlabel("distance from the target: right of the line is better than asked (grey: no target, plain ratio)")
    axes.set_title("Wakeline's ratios against their targets")
    plot.savefig(PLOT, dpi=110)
    plt.close(plot)


def _margin(row: Figure) -> float:
    if row.target is None:
        return row.ratio
    return row.ratio / row.target if row.bound == "at least" else row.target / row.ratio
