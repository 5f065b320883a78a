"""The one writer of a SQLite store, as the event loop sees it: commands go in, answers come out after their commit.

Requests queue; whoever holds the writing connection takes whatever is there, up to a bound, and carries it in one
transaction (`commits.py`).  While one batch is being committed the next one gathers, so the batch grows by itself under
load and a lone request waits for nobody.

A server's writer is a process of its own (`apart.py`): two busy threads of one interpreter wait for each other more
than they work.  The one here is a thread, for whoever opens a store to look into it.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import apsw

from wakeline.core.appended import Appended
from wakeline.core.store import FollowUp, Making, Wants
from wakeline.errors import Unavailable, WakelineError
from wakeline.store.sqlite.commits import MAX_BATCH, Asked, Carried, Commits

OnCommit = Callable[[Sequence[Appended], Sequence[Any]], None]  # what was appended, what followed from it


class Writer(Protocol):
    follow_up: FollowUp | None

    @property
    def trouble(self) -> WakelineError | None:
        """Why the last write failed; None once one succeeds."""
        ...

    def submit(self, asked: Asked | Making[Any]) -> asyncio.Future[Any]: ...

    async def close(self) -> None:
        """Everything that was accepted is finished first."""
        ...


def tell(on_commit: OnCommit, carried: Carried, futures: Sequence[asyncio.Future[Any]]) -> None:
    """Ring first, so that listeners and the poster hear of it in the same turn of the loop."""
    outcomes, appended, followed = carried
    try:
        on_commit(appended, followed)
    finally:  # whatever becomes of the ring, what was written is answered
        settle(list(zip(futures, outcomes, strict=True)))


def settle(pairs: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in pairs:
        if future.done():  # the caller went away; what was written stays written
            continue
        if isinstance(outcome, WakelineError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def stopping() -> Unavailable:
    return Unavailable("SHUTTING_DOWN", "The server is stopping; nothing was written.")


class ThreadWriter:
    def __init__(
        self, connection: apsw.Connection, clock: Callable[[], int], on_commit: OnCommit, wants: Wants
    ) -> None:
        self._connection = connection
        self._commits = Commits(connection)
        self._clock = clock
        self._on_commit = on_commit
        self._wants = wants
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[Asked, asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="wakeline-writer", daemon=True)
        self._closed = False
        self.follow_up: FollowUp | None = None
        self._thread.start()

    @property
    def trouble(self) -> WakelineError | None:
        return self._commits.trouble

    def submit(self, asked: Asked | Making[Any]) -> asyncio.Future[Any]:
        if self._closed:
            raise stopping()
        future = self._loop.create_future()
        self._queue.put((asked() if callable(asked) else asked, future))
        return future

    async def close(self) -> None:
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._connection.close()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        items = self._gather()
        while None not in items:
            self._serve(items)
            items = self._gather()
        self._serve(items[:-1])

    def _gather(self) -> list[Any]:
        """What waits now; the end comes last."""
        items = [self._queue.get()]
        while items[-1] is not None and len(items) < MAX_BATCH:
            try:
                items.append(self._queue.get_nowait())
            except queue.Empty:
                return items
        return items

    def _serve(self, items: list[Any]) -> None:
        self._commits.follow_up = self.follow_up
        carried = self._commits.serve([asked for asked, _ in items], self._clock(), whole=self._wants())
        self._loop.call_soon_threadsafe(tell, self._on_commit, carried, [future for _, future in items])
