"""A stream whose listener takes what comes at once: in order, bounded, and by its queue when it cannot."""

from __future__ import annotations

from wakeline.core.principal import PARTICIPANT, Caller, Kind
from wakeline.service.listeners import Stream

LIMIT = 2


class Listener:
    def __init__(self) -> None:
        caller = Caller(1, "default", "@ann", Kind.AGENT, PARTICIPANT)
        self.overflowed = False
        self.heard: list[int] = []
        self.reads = True
        self.stream: Stream[int] = Stream(caller, LIMIT, self._overflow)
        self.stream.take = self._take

    def _take(self, item: int) -> bool:
        if self.reads:
            self.heard.append(item)
        return self.reads

    def _overflow(self) -> None:
        self.overflowed = True


def test_what_is_taken_at_once_does_not_stand_in_the_queue() -> None:
    listener = Listener()
    listener.stream.offer(1, at_once=True)
    listener.stream.offer(2, at_once=True)
    assert (listener.heard, list(listener.stream.queue)) == ([1, 2], [])


def test_nothing_is_taken_that_is_not_to_be_written_at_once() -> None:
    listener = Listener()
    listener.stream.offer(1)
    assert (listener.heard, list(listener.stream.queue)) == ([], [1])


def test_nothing_overtakes_what_stands_in_the_queue() -> None:
    listener = Listener()
    listener.reads = False
    listener.stream.offer(1, at_once=True)
    listener.reads = True
    listener.stream.offer(2, at_once=True)
    assert (listener.heard, list(listener.stream.queue)) == ([], [1, 2])


def test_a_keep_alive_goes_through_the_queue() -> None:
    listener = Listener()
    listener.stream.offer(None, at_once=True)
    assert (listener.heard, list(listener.stream.queue)) == ([], [None])


def test_who_does_not_take_anything_is_cut_off_at_the_limit() -> None:
    listener = Listener()
    listener.reads = False
    for number in range(LIMIT + 1):
        listener.stream.offer(number, at_once=True)
    assert listener.stream.closed
    assert listener.overflowed
    listener.reads = True
    listener.stream.offer(9, at_once=True)
    assert listener.heard == []
