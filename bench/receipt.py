"""From a post to its receipt over SSE, one poster: beside a no-op round trip plus a bare commit of one post.

The target is against the two as they are back to back.  Beside it, for information, stand the two as they would
alternate: each waits for about as long as the other takes, because a processor that has slept is slower than one that
is asked again at once, and that is how a lone poster finds them.
"""

from __future__ import annotations

import select
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import msgspec

from bench import raw, store
from bench.load import Line, connect
from bench.results import Figure, figure
from bench.rounds import Plan, isolated, median, quantile, take_turns
from bench.servers import Scene, Session, make_scene, noop_server, port_of, real_server, request
from wakeline.testing.server import ServerProcess

NAME = "receipt"
UNIT = "ms"
WARM_UP = 50
COMMIT_SECONDS, ROUND_TRIP_SECONDS = 0.0004, 0.0002  # about
_POSTED = b"event: message.posted\n"
_END = b"\n\n\r\n"  # of the frame and of the chunk that carries it


class Ends(msgspec.Struct, frozen=True):
    """Who posts, and who listens."""

    port: int
    post: bytes
    listen: bytes


def open_stream(port: int, listen: bytes) -> socket.socket:
    """A stream that has caught up: whatever comes next is new."""
    stream = connect(port)
    stream.sendall(listen)
    heard = b""
    while b": connected\n\n" not in heard:
        heard += hear(stream)
    return stream


def hear(stream: socket.socket) -> bytes:
    heard = stream.recv(65_536)
    if not heard:
        raise RuntimeError("the server closed a stream")
    return heard


def has_event(heard: bytes | bytearray) -> bool:
    return _POSTED in heard and heard.endswith(_END)


def receipts(ends: Ends, posts: int) -> list[float]:
    """Seconds from the first byte of each post to the last byte of its event."""
    stream = open_stream(ends.port, ends.listen)
    line = Line(ends.port, [ends.post], 201)
    took = [_receipt(line, stream) for _ in range(WARM_UP + posts)]
    return took[WARM_UP:]


def round_trips(ends: Ends, posts: int, pause: float) -> list[float]:
    """Seconds from the first byte of each post to the last byte of its answer, on a server that stores nothing."""
    stream = open_stream(ends.port, ends.listen)
    line = Line(ends.port, [ends.post], 201)
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    poll.register(line.socket, select.POLLIN)
    took = []
    for _ in range(WARM_UP + posts):
        if pause:
            time.sleep(pause)
        line.send()
        poll.poll(60_000)
        took.append(line.receive())
    return took[WARM_UP:]


def _receipt(line: Line, stream: socket.socket) -> float:
    """Whichever of the answer and the event comes first; both must have come before the next post."""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    poll.register(line.socket, select.POLLIN)
    line.send()
    heard, heard_at, answered = b"", 0.0, False
    while not (heard_at and answered):
        for number, _ in poll.poll(60_000):
            if number == stream.fileno():
                heard += hear(stream)
                if has_event(heard):
                    heard_at = time.perf_counter()
            else:
                line.receive()
                answered = True
    return heard_at - line.sent_at


def measure(plan: Plan) -> list[Figure]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wakeline-bench-")))
        real, scene = _started(stack, real_server(folder / "real"))
        noop, noop_scene = _started(stack, noop_server(folder / "noop"))
        ends = Ends(port_of(real), scene.requests()[0][0], _listen(scene))
        nothing = Ends(port_of(noop), noop_scene.requests()[0][0], _listen(noop_scene))
        seed = isolated(store.make_seed, folder)
        late: list[float] = []
        alone: list[float] = []

        def receipt() -> float:
            took = isolated(receipts, ends, plan.posts)
            late.append(quantile(took, 0.99) * 1000)
            return quantile(took, 0.5) * 1000

        def commit() -> float:
            run = isolated(store.submit, seed, folder / "ours.db", 1, plan.posts)
            alone.append(quantile(run.took, 0.5) * 1000)
            return commits(0.0)

        def commits(pause: float) -> float:
            took = isolated(raw.write_again, seed.path, folder / "ours.db", seed.last_log_id, 1, pause)
            return quantile(took, 0.5) * 1000

        def no_ops(pause: float) -> float:
            return quantile(isolated(round_trips, nothing, plan.posts, pause), 0.5) * 1000

        contenders: dict[str, Callable[[], float]] = {
            "receipt": receipt,
            "no-op": lambda: no_ops(0.0),
            "commit": commit,
            "no-op, alternating": lambda: no_ops(COMMIT_SECONDS),
            "commit, alternating": lambda: commits(ROUND_TRIP_SECONDS),
        }
        measured = {name: median(took) for name, took in take_turns(NAME, plan.rounds, contenders, UNIT).items()}
    return _figures(measured, median(late), median(alone))


def _started(stack: ExitStack, server: ServerProcess) -> tuple[ServerProcess, Scene]:
    stack.enter_context(server)
    return server, make_scene(Session(server))


def _listen(scene: Scene) -> bytes:
    """A stream of another member of the thread that the first agent posts into."""
    thread_id = scene.threads[0][0]
    members = (agent for agent, threads in zip(scene.agents, scene.threads, strict=True) if thread_id in threads)
    [other] = islice(members, 1, 2)
    return request("GET", "/v1/events", other.token)


def _figures(measured: dict[str, float], late: float, alone: float) -> list[Figure]:
    ours, noop, commit = measured["receipt"], measured["no-op"], measured["commit"]
    slow_noop, slow_commit = measured["no-op, alternating"], measured["commit, alternating"]
    note = f"reference: a no-op POST ({noop:.2f} ms) + a bare commit of one post ({commit:.2f} ms)"
    slow_note = f"reference: the same at the pace of alternating ({slow_noop:.2f} + {slow_commit:.2f} ms)"
    store_note = "reference: a bare commit of the same rows; how much the store adds when nobody else posts"
    return [
        figure(f"{NAME}: post to SSE, p50", ours, noop + commit, UNIT, note, at_most=1.5),
        figure(f"{NAME}: post to SSE, p50, at its pace", ours, slow_noop + slow_commit, UNIT, slow_note),
        figure(f"{NAME}: post to SSE, p99", late, ours, UNIT, "reference: its p50", at_most=5),
        figure(f"{NAME}: one post through the store, p50", alone, commit, UNIT, store_note),
    ]
