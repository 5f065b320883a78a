"""Durable posts through HTTP, 64 keep-alive clients, 1 KB bodies: beside a no-op, on both databases, beside others."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench import load, others
from bench.results import Figure, figure
from bench.rounds import Plan, isolated, median, say, take_turns
from bench.servers import Session, make_scene, noop_server, port_of, real_server
from wakeline.testing.server import ServerProcess

NAME = "posts"
UNIT = "posts/s"


class Contender:
    """One server and its load; remembers how busy the load generator was."""

    def __init__(self, server: ServerProcess, seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        self._session = Session(server)
        scene = make_scene(self._session)
        self._reader = scene.agents[0].token
        self._requests = scene.requests()
        self.busy: list[float] = []

    def __call__(self) -> float:
        report = isolated(load.drive, port_of(self._server), self._requests, self._seconds)
        self.busy.append(report.busy)
        self._session.settle(self._reader)
        return report.rate


def measure(plan: Plan) -> list[Figure]:
    """First beside the no-op with nobody else there: others go on syncing and tidying up after their turn is over."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wakeline-bench-")))
        sqlite = Contender(stack.enter_context(real_server(folder / "sqlite")), plan.seconds)
        with noop_server(folder / "noop") as server:
            noop = Contender(server, plan.seconds)
            alone = _take_turns(plan, {"sqlite": sqlite, "no-op": noop})
        contenders: dict[str, Callable[[], float]] = {"sqlite": sqlite}
        for name, start in (("postgresql", _postgres), ("redis", _redis), ("nats", _nats)):
            try:
                contenders[name] = start(stack, folder, plan.seconds)
            except (ImportError, OSError, RuntimeError) as error:
                say(NAME, f"{name} is left out: {str(error).strip().splitlines()[-1]}")
        return [_beside_noop(alone, sqlite.busy, noop.busy), *_beside_others(_take_turns(plan, contenders))]


def _take_turns(plan: Plan, contenders: dict[str, Callable[[], float]]) -> dict[str, float]:
    return {name: median(values) for name, values in take_turns(NAME, plan.rounds, contenders, UNIT).items()}


def _postgres(stack: ExitStack, folder: Path, seconds: float) -> Callable[[], float]:
    from tests.databases import fresh_postgres  # noqa: PLC0415 - starts looking for a runtime directory at once

    database = stack.enter_context(fresh_postgres())
    return Contender(stack.enter_context(real_server(folder / "postgres", database)), seconds)


def _redis(stack: ExitStack, folder: Path, seconds: float) -> Callable[[], float]:
    (folder / "redis").mkdir()
    port = stack.enter_context(others.redis_server(folder / "redis"))
    return lambda: isolated(others.redis_rate, port, seconds)


def _nats(stack: ExitStack, folder: Path, seconds: float) -> Callable[[], float]:
    (folder / "nats").mkdir()
    port = stack.enter_context(others.nats_server(folder / "nats"))
    return lambda: isolated(others.nats_rate, port, seconds)


def _beside_noop(rates: dict[str, float], busy: list[float], noop_busy: list[float]) -> Figure:
    cost = f"the load generator used {median(busy):.0%} of a core, {median(noop_busy):.0%} for the no-op"
    note = f"reference: a no-op POST on the same app, same authentication and validation; {cost}"
    return figure(f"{NAME}: HTTP on SQLite", rates["sqlite"], rates["no-op"], UNIT, note, at_least=0.5)


def _beside_others(rates: dict[str, float]) -> list[Figure]:
    ours, rows = rates["sqlite"], []
    if "postgresql" in rates:
        note = "reference: the same on SQLite"
        rows.append(figure(f"{NAME}: HTTP on PostgreSQL", rates["postgresql"], ours, UNIT, note, at_least=0.6))
    if "redis" in rates:
        note = "reference: XADD, appendfsync always, redis-py, 64 in flight"
        rows.append(figure(f"{NAME}: beside Redis Streams", ours, rates["redis"], UNIT, note))
    if "nats" in rates:
        note = "reference: JetStream, file storage, sync_interval always, nats-py, 64 in flight"
        rows.append(figure(f"{NAME}: beside NATS JetStream", ours, rates["nats"], UNIT, note))
    return rows
