"""1,000 SSE receivers: how long until all have one event, and how much memory an idle one takes."""

from __future__ import annotations

import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from bench.load import Line, connect
from bench.receipt import has_event, hear, open_stream
from bench.results import Figure, figure
from bench.rounds import Plan, isolated, median, say
from bench.servers import ROOT, Agent, Session, enrol, port_of, post, real_server, request
from wakeline.testing.server import ServerProcess

NAME = "receivers"
RECEIVERS = 1000
IDLE_KILOBYTES = 20
EVENTS = 5  # per round
FILES = 8192


class Side(msgspec.Struct, frozen=True):
    """One server: where it is, what each receiver asks, and what makes an event."""

    port: int
    pid: int
    listens: list[bytes]
    trigger: bytes


class Outcome(msgspec.Struct, frozen=True):
    kilobytes: list[float]
    ours: list[float]
    bare: list[float]
    frame_bytes: int


class Crowd:
    """All receivers of one server."""

    def __init__(self, side: Side) -> None:
        self.streams = [open_stream(side.port, listen) for listen in side.listens]
        self._ready = selectors.DefaultSelector()
        for stream in self.streams:
            self._ready.register(stream, selectors.EVENT_READ, bytearray())

    def hear(self) -> int:
        """Wait until every one of them has one whole event; answers its size."""
        missing, size = len(self.streams), 0
        while missing:
            for key, _ in self._ready.select(60):
                stream, heard = key.fileobj, key.data
                assert isinstance(stream, socket.socket)  # noqa: S101 - only sockets are registered
                heard += hear(stream)
                if has_event(heard):
                    size = len(heard)
                    missing -= 1
                    heard.clear()
        return size


def fan_out(ours: Side, bare_command: list[str], rounds: int) -> Outcome:
    kilobytes, crowd = _crowded(ours)
    line = Line(ours.port, [ours.trigger], 201)
    frame_bytes = _post(line, crowd)[1]  # the first one warms up and tells the size
    with _bare_server([*bare_command, str(frame_bytes)]) as port:
        bare = Crowd(msgspec.structs.replace(ours, port=port))
        trigger = connect(port)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            times[0].append(median([_post(line, crowd)[0] for _ in range(EVENTS)]))
            times[1].append(median([_go(trigger, bare) for _ in range(EVENTS)]))
    return Outcome(kilobytes, times[0], times[1], frame_bytes)


def _crowded(side: Side) -> tuple[list[float], Crowd]:
    """Three thousand idle receivers, a thousand at a time; what each thousand cost.  A thousand stay."""
    _allow_many_files()
    process = psutil.Process(side.pid)
    kilobytes, crowds = [], []
    for _ in range(3):
        before = process.memory_info().rss
        crowds.append(Crowd(side))
        kilobytes.append((process.memory_info().rss - before) / 1024 / len(side.listens))
    for crowd in crowds[1:]:
        for stream in crowd.streams:
            stream.close()
    time.sleep(0.5)  # the server notices that they are gone
    return kilobytes, crowds[0]


def _post(line: Line, crowd: Crowd) -> tuple[float, int]:
    line.send()
    size = crowd.hear()
    took = time.perf_counter() - line.sent_at
    line.receive()
    return took, size


def _go(trigger: socket.socket, crowd: Crowd) -> float:
    began = time.perf_counter()
    trigger.sendall(b"!")
    crowd.hear()
    return time.perf_counter() - began


@contextmanager
def _bare_server(command: list[str]) -> Iterator[int]:
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None  # noqa: S101 - asked for above
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def _allow_many_files() -> None:
    """Ours and, since children inherit it, theirs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def measure(plan: Plan) -> list[Figure]:
    _allow_many_files()
    with (
        tempfile.TemporaryDirectory(prefix="wakeline-bench-") as folder,
        real_server(Path(folder) / "data") as server,
    ):
        outcome = isolated(fan_out, _side(server), [sys.executable, "-m", "bench.bare"], plan.rounds)
    return _figures(outcome)


def _side(server: ServerProcess) -> Side:
    """A thread of a thousand and one members: one posts, a thousand listen."""
    session = Session(server)
    say(NAME, f"adding {RECEIVERS} agents")
    poster, *others = enrol(session, "listener", RECEIVERS + 1)
    thread = session.call("POST", "/v1/threads", {"title": "all", "members": _handles(others)}, poster.token)
    listens = [request("GET", "/v1/events", agent.token) for agent in others]
    return Side(port_of(server), server.pid, listens, post(poster.token, thread["thread_id"]))


def _handles(agents: list[Agent]) -> list[str]:
    return [agent.handle for agent in agents]


def _figures(outcome: Outcome) -> list[Figure]:
    ours, bare = median(outcome.ours) * 1000, median(outcome.bare) * 1000
    note = f"reference: a bare asyncio fan-out of the same {outcome.frame_bytes} bytes to the same receivers"
    idle_note = "reference: the limit; growth of the server's resident memory by each further thousand streams"
    return [
        figure(f"{NAME}: {RECEIVERS:,} have one event", ours, bare, "ms", note, at_most=3),
        figure(f"{NAME}: memory of an idle one", median(outcome.kilobytes), IDLE_KILOBYTES, "KB", idle_note, at_most=1),
    ]
