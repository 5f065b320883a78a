"""Those whom the hub tells: streams with a bounded queue, and whoever waits for a reply or for mail."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from wakeline.core.principal import Caller
from wakeline.core.queries import Entry

T = TypeVar("T")


class Published:
    """One log row on its way to many streams.  `encoded` is filled by the first face that needs it."""

    __slots__ = ("encoded", "entry", "epoch")

    def __init__(self, entry: Entry, epoch: str) -> None:
        self.entry = entry
        self.epoch = epoch
        self.encoded: bytes | None = None


class Stream(Generic[T]):
    """One listener's bounded queue.  A listener that waits may take what comes at once, without its queue: `take` says
    whether it did.
    """

    __slots__ = ("_limit", "_ready", "after", "caller", "closed", "on_overflow", "queue", "take")

    def __init__(self, caller: Caller, limit: int, on_overflow: Callable[[], None]) -> None:
        self.caller = caller
        self.after = 0  # the listener has this row already, even if the hub has yet to come to it
        self.queue: deque[T | None] = deque()  # None: a keep-alive
        self.take: Callable[[T], bool] | None = None
        self.closed = False
        self.on_overflow = on_overflow
        self._limit = limit
        self._ready = asyncio.Event()

    def offer(self, item: T | None, *, at_once: bool = False) -> None:
        if self.closed:
            return
        if at_once and self.take is not None and item is not None and not self.queue and self.take(item):
            return
        if len(self.queue) >= self._limit:
            if item is not None:
                self.close()
                self.on_overflow()
            return
        self.queue.append(item)
        self._ready.set()

    def close(self) -> None:
        self.closed = True
        self._ready.set()

    async def wait(self) -> None:
        """Until there is something in the queue or the stream was closed."""
        await self._ready.wait()
        self._ready.clear()


class Ring(Protocol):
    def set(self) -> None:
        """Look again."""


R = TypeVar("R", bound=Ring)


class Waiter(Generic[R]):
    """Somebody who waits for the reply to one message, or for new mail."""

    __slots__ = ("caller", "closed", "ring")

    def __init__(self, caller: Caller, ring: R) -> None:
        self.caller = caller
        self.closed = False
        self.ring = ring

    def close(self) -> None:
        self.closed = True
        self.ring.set()
