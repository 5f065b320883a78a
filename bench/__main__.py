"""Run the benchmarks: `python -m bench [name …] [--long] [--quick]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from bench import growth, matching, mcp, posts, receipt, receivers, results, shell, store, wakes, webhook
from bench.results import Figure, goal, shown
from bench.rounds import NORMAL, QUICK, Plan, say

BENCHMARKS: dict[str, Callable[[Plan], list[Figure]]] = {
    module.NAME: module.measure
    for module in (posts, store, receipt, receivers, matching, webhook, mcp, wakes, shell, growth)
}
LONG = frozenset({growth.NAME})


def main() -> int:
    chosen = _arguments()
    names = chosen.names or [name for name in BENCHMARKS if chosen.long or name not in LONG]
    measured: list[Figure] = []
    for name in names:
        began = time.perf_counter()
        rows = BENCHMARKS[name](QUICK if chosen.quick else NORMAL)
        for row in rows:
            say(name, f"{_verdict(row)}  {row.name}: {shown(row.ratio)} {goal(row)}")
        say(name, f"took {time.perf_counter() - began:.0f} s")
        measured += rows
    _write(measured)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Wakeline against references.")
    parser.add_argument("names", nargs="*", metavar="name", choices=[[], *BENCHMARKS], help=", ".join(BENCHMARKS))
    parser.add_argument("--long", action="store_true", help=f"also run what takes minutes: {', '.join(sorted(LONG))}")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a first impression")
    return parser.parse_args()


def _verdict(row: Figure) -> str:
    return "    " if row.met is None else "met " if row.met else "MISS"


def _write(measured: list[Figure]) -> None:
    from bench import plot  # noqa: PLC0415 - children import this module again and need no plots

    rows = results.merge(measured, list(BENCHMARKS))
    results.write(rows)
    plot.draw(rows)
    print(f"\n{results.table(rows)}\nwritten: {results.JSON.name}, {results.TABLE.name}, {results.PLOT.name}")


if __name__ == "__main__":
    sys.exit(main())
