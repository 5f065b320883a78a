"""Make HTTP load cheaply: blocking sockets, one `poll`, requests encoded beforehand, answers only counted.

It runs in a process of its own and reports how much of a core it used, so that a reader can tell whether the server or
the load generator was the limit.  Real clients are elsewhere: it leaves the processors to whom it measures first.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator
from itertools import cycle

import msgspec

from bench.rounds import quantile

WARM_UP_SECONDS = 0.3
POLITE = 5
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


class Report(msgspec.Struct, frozen=True):
    rate: float
    p50: float
    p99: float
    busy: float  # the share of a core that making the load took


class Line:
    """One keep-alive connection: sends its requests in turn, over and over, one at a time."""

    def __init__(self, port: int, requests: list[bytes], status: int) -> None:
        self.socket = connect(port)
        self.sent_at = 0.0
        self._requests: Iterator[bytes] = cycle(requests)
        self._start = b"HTTP/1.1 %d " % status

    def send(self) -> None:
        self.sent_at = time.perf_counter()
        self.socket.sendall(next(self._requests))

    def receive(self) -> float:
        """Take the whole answer; how long it took since the request."""
        answer = self.socket.recv(65_536)
        while not is_whole(answer):
            answer += self._more(answer)
        if not answer.startswith(self._start):
            raise RuntimeError(f"expected {self._start!r}, got {answer[:600]!r}")
        return time.perf_counter() - self.sent_at

    def _more(self, answer: bytes) -> bytes:
        more = self.socket.recv(1 << 20)
        if not more:
            raise RuntimeError(f"the server hung up after {answer[:600]!r}")
        return more

    def exchange(self) -> float:
        self.send()
        return self.receive()


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def is_whole(answer: bytes) -> bool:
    head = answer.find(_HEAD_END)
    if head < 0:
        return False
    at = answer.find(_LENGTH, 0, head) + len(_LENGTH)
    return len(answer) >= head + len(_HEAD_END) + int(answer[at : answer.find(b"\r", at)])


def drive(port: int, requests: list[list[bytes]], seconds: float, status: int = 201) -> Report:
    """One connection per list of requests, all busy all the time; counts the answers after a short warm-up."""
    lines = {line.socket.fileno(): line for line in (Line(port, one, status) for one in requests)}
    os.nice(POLITE)
    poll = select.poll()
    for number, line in lines.items():
        poll.register(number, select.POLLIN)
        line.send()
    _turn(lines, poll, WARM_UP_SECONDS)
    cpu, began = time.process_time(), time.perf_counter()
    took = _turn(lines, poll, seconds)
    elapsed = time.perf_counter() - began
    busy = (time.process_time() - cpu) / elapsed
    for line in lines.values():  # what is under way is answered before we hang up
        line.receive()
        line.socket.close()
    return Report(len(took) / elapsed, quantile(took, 0.5), quantile(took, 0.99), busy)


def _turn(lines: dict[int, Line], poll: select.poll, seconds: float) -> list[float]:
    took: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for number, _ in poll.poll(1000):
            line = lines[number]
            took.append(line.receive())
            line.send()
    return took


def time_each(port: int, requests: list[bytes], status: int = 201) -> list[float]:
    """One connection, each request once: how long each took, in seconds."""
    line = Line(port, requests, status)
    took = [line.exchange() for _ in requests]
    line.socket.close()
    return took
