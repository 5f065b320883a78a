"""Measure fairly on a noisy machine: everything that is compared takes turns, and the median of its turns counts."""

from __future__ import annotations

import multiprocessing
import statistics
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

import msgspec

P = ParamSpec("P")
T = TypeVar("T")


class Plan(msgspec.Struct, frozen=True):
    """How much to measure."""

    rounds: int
    seconds: float  # per contender and round, where a rate is measured
    posts: int  # per round, where single posts are timed


# Many short turns rather than few long ones: the speed of a shared machine changes from one second to the next.
NORMAL = Plan(rounds=15, seconds=1.0, posts=300)
QUICK = Plan(rounds=3, seconds=1.0, posts=200)


def say(benchmark: str, text: str) -> None:
    print(f"[{benchmark}] {text}", flush=True)


def take_turns(
    benchmark: str, rounds: int, contenders: Mapping[str, Callable[[], float]], unit: str
) -> dict[str, list[float]]:
    """Each contender once per round, every second round backwards, so that a drift of the machine hits all alike."""
    measured: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        names = list(contenders)[:: 1 if number % 2 == 0 else -1]
        for name in names:
            measured[name].append(contenders[name]())
        told = ", ".join(f"{name} {values[-1]:,.4g}" for name, values in measured.items())
        say(benchmark, f"round {number + 1} of {rounds}: {told} {unit}")
    return measured


def median(values: list[float]) -> float:
    return statistics.median(values)


def quantile(values: list[float], fraction: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]


def isolated(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run it in a fresh process: whoever makes the load must not share an interpreter with anything else."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()
