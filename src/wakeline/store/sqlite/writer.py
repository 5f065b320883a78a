"""Group commit on SQLite: one thread owns the only writing connection.

Requests queue; the thread takes whatever is there, up to a bound, and carries it in one transaction: load the facts,
decide each command in order, write what changed, commit, then answer all of them at once.  There is no timer: while
one batch is being committed the next one gathers, so the batch grows by itself under load and a lone request waits for
nobody.

What can go wrong, and what then happens:
- A command is refused: that is its answer; the others of the batch never notice.
- A constraint fails or a decision has a bug: the transaction is rolled back and the batch runs again one by one, so
  only the guilty one fails.  What was known of the database is forgotten and read again.
- The store itself fails (disk full, file gone): the whole batch is answered with that error.  Nothing was written, and
  the next batch tries again, so the server goes on by itself when the disk does.
- Another program holds the database: the batch waits for it a while.  Once that was in vain, the ones after it are
  refused almost at once, until a write gets through again: nobody waits for a wait that has already failed.
- We are killed: nothing of the open transaction is on disk and nobody was answered.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

import apsw
import msgspec

from wakeline.core.appended import Appended
from wakeline.core.batch import decide_all, needs_of
from wakeline.core.picture import Changes, Picture
from wakeline.core.store import Command
from wakeline.errors import Internal, Unavailable, WakelineError
from wakeline.store import statements
from wakeline.store.sqlite.connection import BUSY_MILLISECONDS, transaction, translate
from wakeline.store.sqlite.facts import Loader

_log = logging.getLogger(__name__)

MAX_BATCH = 512
HURRIED_MILLISECONDS = 50
_TABLES = ("log", *(name for name in Changes.__slots__ if name not in ("log", "refusals")), "refusals")
_astuple = msgspec.structs.astuple


class Submission:
    __slots__ = ("command", "future")

    def __init__(self, command: Command[Any], future: asyncio.Future[Any]) -> None:
        self.command = command
        self.future = future


class Job:
    """Something else that needs the writing connection: runs alone, in a transaction of its own."""

    __slots__ = ("future", "work")

    def __init__(self, work: Callable[[apsw.Connection], Any], future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future


class Writer:
    def __init__(
        self,
        connection: apsw.Connection,
        clock: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
        on_commit: Callable[[Sequence[Appended]], None],
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._loop = loop
        self._on_commit = on_commit
        self._queue: queue.SimpleQueue[Submission | Job | None] = queue.SimpleQueue()
        self._loader = Loader(connection)
        self._put = {name: statements.load("sqlite", f"put_{name}").text for name in _TABLES}
        self._close_batch = statements.load("sqlite", "close_batch").text
        self._thread = threading.Thread(target=self._run, name="wakeline-writer", daemon=True)
        self._closed = False
        self._appended: list[Appended] = []  # to the log since the last answer, in order
        self.trouble: WakelineError | None = None  # why the last write failed; None once one succeeds
        self._thread.start()

    # -- called on the event loop -------------------------------------------------------------------------------------

    def submit(self, command: Command[Any]) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self._enqueue(Submission(command, future))
        return future

    def run(self, work: Callable[[apsw.Connection], Any]) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self._enqueue(Job(work, future))
        return future

    def _enqueue(self, item: Submission | Job) -> None:
        if self._closed:
            raise Unavailable("SHUTTING_DOWN", "The server is stopping; nothing was written.")
        self._queue.put(item)

    async def close(self) -> None:
        """Everything that was accepted is finished first."""
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                return
            if isinstance(item, Job):
                self._run_job(item)
                continue
            batch, following = self._gather(item)
            self._answer(self._commit_or_split(batch))
            if isinstance(following, Job):
                self._run_job(following)
            elif following is _STOP:
                return

    def _gather(self, first: Submission) -> tuple[list[Submission], Job | object | None]:
        batch = [first]
        while len(batch) < MAX_BATCH:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, None
            if not isinstance(item, Submission):
                return batch, _STOP if item is None else item
            batch.append(item)
        return batch, None

    def _commit_or_split(self, batch: list[Submission]) -> list[tuple[asyncio.Future[Any], Any]]:
        try:
            outcomes = self._commit([item.command for item in batch])
            self._note(None)
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread lives on and everybody is answered
            self._loader.forget()
            failure = _failure(error)
            if not isinstance(failure, Unavailable) and len(batch) > 1:
                return [pair for item in batch for pair in self._commit_or_split([item])]
            self._note(failure)
            outcomes = [failure.again() for _ in batch]
        return [(item.future, outcome) for item, outcome in zip(batch, outcomes, strict=True)]

    def _note(self, trouble: WakelineError | None) -> None:
        if trouble is not self.trouble:
            busy = trouble is not None and trouble.code == "STORE_BUSY"
            self._connection.set_busy_timeout(HURRIED_MILLISECONDS if busy else BUSY_MILLISECONDS)
            self.trouble = trouble

    def _commit(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """One transaction for all of them; a workspace at a time, each over its own picture."""
        outcomes: list[Any] = [None] * len(commands)
        pictures: list[Picture] = []
        with transaction(self._connection):
            self._loader.begin()
            for workspace_id in dict.fromkeys(command.workspace_id for command in commands):
                places = [n for n, command in enumerate(commands) if command.workspace_id == workspace_id]
                picture, answers = self._decide(workspace_id, [commands[n] for n in places])
                for n, answer in zip(places, answers, strict=True):
                    outcomes[n] = answer
                self._write(picture)
                pictures.append(picture)
        for picture in pictures:
            self._loader.wrote(picture)
        self._appended += [Appended(picture) for picture in pictures if picture.changes.log]
        return outcomes

    def _decide(self, workspace_id: int, commands: Sequence[Command[Any]]) -> tuple[Picture, list[Any]]:
        picture = Picture(self._loader.load(workspace_id, needs_of(commands), self._clock()))
        return picture, decide_all(commands, picture)

    def _write(self, picture: Picture) -> None:
        """Put every changed row."""
        changes = picture.changes
        if not changes:
            return
        for name in _TABLES:
            rows = getattr(changes, name)
            if rows:
                values = rows if name == "log" else rows.values()
                self._connection.executemany(self._put[name], [_astuple(row) for row in values])
        if changes.principals:
            _write_roles(self._connection, picture)
        self._connection.execute(self._close_batch, (picture.last_log_id, picture.workspace.workspace_id))

    def _run_job(self, job: Job) -> None:
        self._loader.forget()
        try:
            with transaction(self._connection):
                outcome = job.work(self._connection)
            self._note(None)
        except Exception as error:  # noqa: BLE001 - as above
            outcome = _failure(error)
            self._note(outcome)
        self._answer([(job.future, outcome)])

    def _answer(self, pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
        """Ring first, so that listeners and the poster hear of it in the same turn of the loop."""
        appended, self._appended = self._appended, []
        self._loop.call_soon_threadsafe(self._tell, appended, pairs)

    def _tell(self, appended: list[Appended], pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
        try:
            self._on_commit(appended)
        finally:  # whatever becomes of the ring, what was written is answered
            _settle(pairs)


_STOP = object()


def _failure(error: Exception) -> WakelineError:
    if isinstance(error, WakelineError):
        return error
    if isinstance(error, apsw.Error | OSError) and not isinstance(known := translate(error), Internal):
        return known
    _log.error("a write failed because of a bug", exc_info=error)
    return Internal("INTERNAL", "The write failed because of a bug; nothing was written.")


def _settle(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in pairs:
        if future.done():  # the caller went away; what was written stays written
            continue
        if isinstance(outcome, WakelineError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def _write_roles(connection: apsw.Connection, picture: Picture) -> None:
    for row in picture.changes.principals.values():
        connection.execute(statements.load("sqlite", "forget_role_holders").text, (row.workspace_id, row.handle))
        roles = [] if row.retired_at is not None else row.roles.split()
        connection.executemany(
            statements.load("sqlite", "put_role_holders").text,
            [(row.workspace_id, role, row.handle) for role in roles],
        )
