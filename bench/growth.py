"""From 10,000 to 1,000,000 stored messages: posts, and reads of threads, inboxes and the log.  Takes minutes."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import load
from bench.fill import PER_THREAD, Filled, fill
from bench.results import Figure, figure
from bench.rounds import Plan, isolated, median, quantile, say, take_turns
from bench.servers import Agent, Session, enrol, make_scene, port_of, post, real_server, request
from wakeline.testing.server import ServerProcess

NAME = "growth"
FEW, MANY = 10_000, 1_000_000
READERS = 64
NEAR_THE_TIP = 500
READS = ("thread read", "inbox", "log read")


class Place:
    """One server on a history of this many messages, and everything that can be asked of it."""

    def __init__(self, stack: ExitStack, folder: Path, messages: int, plan: Plan) -> None:
        data = folder / f"{messages}"
        with real_server(data) as server:
            session = Session(server)
            scene = make_scene(session)
            self._busy = scene.requests()
            self._posters = scene.agents
            self._readers = enrol(session, "reader", READERS)
        say(NAME, f"filling in {messages:,} messages")
        self._filled: Filled = isolated(
            fill, data / "wakeline.db", messages, _handles(self._posters), _handles(self._readers)
        )
        self._server: ServerProcess = stack.enter_context(real_server(data))
        self._session = Session(self._server)
        self._plan = plan
        self._dice = random.Random(2)
        self.late: dict[str, list[float]] = {name: [] for name in READS}
        say(NAME, f"indexing {messages:,} messages for search")
        self._session.settle(self._readers[0].token)

    # -- posts --------------------------------------------------------------------------------------------------------

    def busy_rate(self) -> float:
        return self._rate(self._busy)

    def spread_rate(self) -> float:
        """Posts into all threads of the history, each poster into its own in random order."""
        requests: list[list[bytes]] = [[] for _ in self._posters]
        for thread_id, place in zip(self._filled.threads, self._filled.posters, strict=True):
            requests[place].append(post(self._posters[place].token, thread_id))
        for mine in requests:
            self._dice.shuffle(mine)
        return self._rate([mine for mine in requests if mine])

    def _rate(self, requests: list[list[bytes]]) -> float:
        report = isolated(load.drive, port_of(self._server), requests, self._plan.seconds)
        self._session.settle(self._readers[0].token)
        return report.rate

    # -- reads --------------------------------------------------------------------------------------------------------

    def read(self, name: str) -> float:
        """The p50 in milliseconds; the p99 is kept beside it."""
        make = {"thread read": self._thread_reads, "inbox": self._inbox_reads, "log read": self._log_reads}[name]
        requests = [next(reads) for reads in [make()] for _ in range(self._plan.posts * 2)]
        took = isolated(load.time_each, port_of(self._server), requests, 200)
        self.late[name].append(quantile(took, 0.99) * 1000)
        return quantile(took, 0.5) * 1000

    def _thread_reads(self) -> Iterator[bytes]:
        while True:
            number = self._dice.randrange(len(self._filled.threads))
            reader = self._readers[self._filled.readers[number][0]]
            path = f"/v1/threads/{self._filled.threads[number]}/messages?since_seq={PER_THREAD // 2}&limit=50"
            yield request("GET", path, reader.token)

    def _inbox_reads(self) -> Iterator[bytes]:
        while True:
            yield request("GET", "/v1/inbox?limit=50", self._dice.choice(self._readers).token)

    def _log_reads(self) -> Iterator[bytes]:
        """As participants: what they may see of the last few hundred rows."""
        position = self._session.call("GET", "/v1/inbox?limit=1", token=self._readers[0].token)["position"]
        epoch, _, tip = position.partition("-")
        while True:
            path = f"/v1/log?after={epoch}-{int(tip) - NEAR_THE_TIP}&limit=100"
            yield request("GET", path, self._dice.choice(self._posters).token)


def _handles(agents: list[Agent]) -> list[str]:
    return [agent.handle for agent in agents]


@contextmanager
def _places(plan: Plan) -> Iterator[tuple[Place, Place]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wakeline-bench-")))
        yield Place(stack, folder, FEW, plan), Place(stack, folder, MANY, plan)


def measure(plan: Plan) -> list[Figure]:
    with _places(plan) as (few, many):
        rates = _turns(plan, "posts into 100 busy threads", few.busy_rate, many.busy_rate, "posts/s")
        reads = {name: _turns(plan, name, *_readings(name, few, many), "ms") for name in READS}
        spread = _turns(plan, "posts into all threads", few.spread_rate, many.spread_rate, "posts/s")
    late = {name: (median(many.late[name]), median(few.late[name])) for name in READS}
    return [
        _rate_figure("posts into 100 busy threads", rates, 0.75),
        *(row for name in READS for row in _read_figures(name, reads[name], late[name])),
        _rate_figure("posts into all threads", spread, 0.5),
    ]


def _readings(name: str, few: Place, many: Place) -> tuple[Callable[[], float], Callable[[], float]]:
    return lambda: few.read(name), lambda: many.read(name)


def _turns(
    plan: Plan, what: str, few: Callable[[], float], many: Callable[[], float], unit: str
) -> tuple[float, float]:
    say(NAME, what)
    measured = take_turns(NAME, plan.rounds, {f"{FEW:,}": few, f"{MANY:,}": many}, unit)
    return median(measured[f"{MANY:,}"]), median(measured[f"{FEW:,}"])


def _rate_figure(what: str, rates: tuple[float, float], target: float) -> Figure:
    note = f"{MANY:,} stored messages; reference: {FEW:,}"
    return figure(f"{NAME}: {what}", *rates, "posts/s", note, at_least=target)


def _read_figures(what: str, p50: tuple[float, float], p99: tuple[float, float]) -> list[Figure]:
    note = f"{MANY:,} stored messages; reference: {FEW:,}"
    return [
        figure(f"{NAME}: {what}, p50", *p50, "ms", note, at_most=1.25),
        figure(f"{NAME}: {what}, p99", *p99, "ms", note, at_most=2),
    ]
