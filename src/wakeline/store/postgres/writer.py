"""Group commit on PostgreSQL: a lane per workspace, two round trips per batch, no transaction held while we decide.

Requests for one workspace queue in its lane.  The lane takes whatever is there and carries it in one batch: load the
facts, decide each command in order, write what changed, then answer all of them.  While one batch is on its way the
next one gathers, so batches grow by themselves under load and a lone request waits for nobody.

**The optimistic way.**  The facts come from one autocommitted statement: one snapshot, together with the workspace's
`version`, which every batch that writes increases.  The rows go out in one autocommitted statement, whose first part
is the guard: `UPDATE workspaces … WHERE version = <the loaded one> RETURNING …`.  Every other part of that statement
selects from the guard's result, so without a row from the guard nothing is written.  Why this is safe under READ
COMMITTED, where each statement has a snapshot of its own:

- If another node's batch is in flight, the guard waits for its row lock.  When that batch commits, PostgreSQL takes
  the newest version of the row and evaluates the WHERE again: the version has moved on, the guard is empty, we write
  nothing and decide again.  If that batch rolls back instead, the version stands and so do our facts.
- If the guard has a row, no batch came between our load and our lock, because each would have increased the version
  under the same lock.  What the rest of the statement sees through its own snapshot, taken after our load and before
  our lock, is therefore exactly what we decided over: `ON CONFLICT`, the marks and the roles find no surprises.
- The guard's row stays locked until the statement's own commit.  So `last_log_id` moves in commit order, the ids that
  we handed out from the loaded one are gap-free, and a reader that has seen log_id n can never meet an n - 1 later.

**From memory.**  What the last batch loaded and wrote is true while the version is the one that it left (`memory.py`).
A batch that needs nothing else skips the load, and its guard looks at the version as always.

**The pessimistic way.**  Under contention from other nodes the optimistic way could lose again and again.  After a
guard that was lost in spite of a fresh load the batch is done under a lock: BEGIN, lock the workspace's row, load (a
new statement, hence a snapshot from after the lock), decide, write, COMMIT.  That always succeeds.  The lane stays with
it for the next few batches, since where one other node is writing the next conflict is near.

What can go wrong, and what then happens:
- A command is refused: that is its answer; the others of the batch never notice.
- A constraint fails or a decision has a bug: the statement wrote nothing, and the batch runs again one by one, so only
  the guilty one fails.
- PostgreSQL is away, full or read-only: the whole batch is answered with that error.  Nothing was written.
- The connection breaks while the write is on its way: nobody can tell whether it was applied, and the error says so.
  With an idempotency key, repeating it is safe.
- We are killed: the server rolls back what was not committed, and nobody was answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from wakeline.core.batch import decide_all, needs_of
from wakeline.core.picture import Changes, Facts, Needs, Picture
from wakeline.core.store import Command
from wakeline.errors import Internal, NotFound, Unavailable, WakelineError
from wakeline.store import statements
from wakeline.store.postgres import failure
from wakeline.store.postgres.connection import Connection, Links, transaction
from wakeline.store.postgres.facts import load_for
from wakeline.store.postgres.memory import Memory

_log = logging.getLogger(__name__)

MAX_BATCH = 512
MAX_BYTES = 32 * 1024 * 1024
# Batches that a lane carries pessimistically after it has met another node's.
PATIENCE = 16

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Facts).decode

Ring = Callable[[int, int], None]  # called with the workspace and its last log_id after each commit that grew the log
Submission = tuple[Command[Any], "asyncio.Future[Any]"]
Commands = Sequence[Command[Any]]
Decided = tuple[Picture, list[Any]]


class Writer:
    def __init__(self, links: Links, ring: Ring) -> None:
        self._links = links
        self._ring = ring
        self._lanes: dict[int, Lane] = {}
        self._closed = False

    async def submit(self, command: Command[Any]) -> Any:
        if self._closed:
            raise Unavailable("SHUTTING_DOWN", "The server is stopping; nothing was written.")
        lane = self._lanes.get(command.workspace_id)
        if lane is None:
            lane = self._lanes[command.workspace_id] = Lane(command.workspace_id, self._links, self._ring)
        return await lane.put(command)

    async def close(self) -> None:
        """Everything that was accepted is finished first."""
        self._closed = True
        await asyncio.gather(*(lane.task for lane in self._lanes.values() if lane.task is not None))


class Lane:
    """The queue of one workspace.  It is a task only while it has work."""

    def __init__(self, workspace_id: int, links: Links, ring: Ring) -> None:
        self.task: asyncio.Task[None] | None = None
        self._workspace_id = workspace_id
        self._links = links
        self._ring = ring
        self._queue: deque[Submission] = deque()
        self._contended = 0
        self.memory = Memory()

    def put(self, command: Command[Any]) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._queue.append((command, future))
        if self.task is None:
            self.task = loop.create_task(self._run(), name=f"wakeline writer {self._workspace_id}")
        return future

    async def _run(self) -> None:
        try:
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(len(self._queue), MAX_BATCH))]
                await self._carry(batch)
        finally:
            self.task = None

    async def _carry(self, batch: Sequence[Submission]) -> None:
        """Answer every submission of this batch, whatever happens."""
        try:
            picture, outcomes = await self._commit([command for command, _ in batch])
        except Exception as error:  # noqa: BLE001 - whatever it is, the lane lives on and everybody is answered
            self.memory.forget()
            if len(batch) > 1 and _is_of_one_command(error):
                for submission in batch:
                    await self._carry([submission])
                return
            told = _told(error)
            _settle(batch, [told.again() for _ in batch])
            return
        _settle(batch, outcomes)
        self.memory.wrote(picture)  # once its senders are answered: none of them waits for this

    async def _commit(self, commands: Commands) -> Decided:
        needs = needs_of(commands)
        picture, outcomes = await self._links.run(lambda connection: self._attempt(connection, needs, commands))
        if picture.changes.log:
            self._ring(self._workspace_id, picture.last_log_id)
        return picture, outcomes

    async def _attempt(self, connection: Connection, needs: Needs, commands: Commands) -> Decided:
        if self._contended == 0:
            try:
                return await self._from_memory(connection, needs, commands) or await self._optimistically(
                    connection, needs, commands
                )
            except (Overtaken, *failure.OVERTAKEN):
                self._contended = PATIENCE
        self._contended -= 1
        return await self._under_lock(connection, needs, commands)

    async def _from_memory(self, connection: Connection, needs: Needs, commands: Commands) -> Decided | None:
        """None: this cannot be done from memory, and nothing was written."""
        facts = self.memory.recall(needs)
        if facts is None:
            return None
        picture = Picture(facts)
        outcomes = decide_all(commands, picture)
        if not picture.changes:
            return None
        try:
            with failure.uncertain():
                await _write(connection, picture, alone=len(commands) == 1)
        except (Overtaken, *failure.OVERTAKEN):
            self.memory.forget()
            return None
        return picture, outcomes

    async def _optimistically(self, connection: Connection, needs: Needs, commands: Commands) -> Decided:
        picture, outcomes = await self._decide(connection, needs, commands)
        if picture.changes:
            with failure.uncertain():
                await _write(connection, picture, alone=len(commands) == 1)
        return picture, outcomes

    async def _under_lock(self, connection: Connection, needs: Needs, commands: Commands) -> Decided:
        lock = f"SELECT 1 FROM workspaces WHERE workspace_id = {self._workspace_id:d} FOR UPDATE"  # noqa: S608 - a number
        async with transaction(connection, lock):
            picture, outcomes = await self._decide(connection, needs, commands)
            if picture.changes:
                await _write(connection, picture, alone=len(commands) == 1)
        return picture, outcomes

    async def _decide(self, connection: Connection, needs: Needs, commands: Commands) -> Decided:
        text, keys = load_for(self._workspace_id, needs)
        document = await connection.fetchval(text, *keys)
        if document is None:
            raise NotFound("WORKSPACE_NOT_FOUND", f"There is no workspace {self._workspace_id}.")
        facts = _decode(document)
        self.memory.loaded(needs, facts)
        picture = Picture(facts)
        return picture, decide_all(commands, picture)


class Overtaken(Exception):
    """Another node wrote to the workspace after our facts were loaded; nothing was written."""


class Oversized(Exception):
    """More than one statement should carry; one by one it goes."""


async def _write(connection: Connection, picture: Picture, *, alone: bool) -> None:
    changes = picture.changes
    tables = tuple(name for name in Changes.__slots__ if getattr(changes, name))
    batch: dict[str, Any] = {
        "workspace_id": picture.workspace.workspace_id,
        "version": picture.workspace.version,
        "last_log_id": picture.last_log_id,
    }
    for name in tables:
        rows = getattr(changes, name)
        batch[name] = rows if name == "log" else list(rows.values())
    if changes.principals:
        batch["role_holders"] = _role_holders(changes)
    document = _encode(batch).decode()
    if len(document) > MAX_BYTES and not alone:
        raise Oversized
    if await connection.fetchrow(statement_for(tables), document) is None:
        raise Overtaken


@cache
def statement_for(tables: tuple[str, ...]) -> str:
    """The guard and one part per table that has rows: a statement costs what it writes."""
    parts = ["guard", *(f"put_{name}" for name in tables)]
    if "principals" in tables:
        parts += ["forget_role_holders", "put_role_holders"]
    written = ", ".join(f"{part} AS ({statements.load('postgres', part).text})" for part in parts)
    return f"WITH {written} {statements.load('postgres', 'close_batch').text}"


def _role_holders(changes: Changes) -> list[tuple[str, str]]:
    kept = [row for row in changes.principals.values() if row.retired_at is None]
    return [(role, row.handle) for row in kept for role in row.roles.split()]


def _is_of_one_command(error: Exception) -> bool:
    return isinstance(error, failure.ROWS) or not isinstance(error, (*failure.DRIVER, WakelineError))


def _told(error: Exception) -> WakelineError:
    if isinstance(error, WakelineError):
        return error
    if isinstance(error, failure.DRIVER) and not isinstance(error, failure.INVARIANT):
        return failure.translate(error)
    _log.error("a write failed because of a bug", exc_info=error)
    return Internal("INTERNAL", "The write failed because of a bug; nothing was written.")


def _settle(batch: Sequence[Submission], outcomes: Sequence[Any]) -> None:
    for (_, future), outcome in zip(batch, outcomes, strict=True):
        if future.done():  # the caller went away; what was written stays written
            continue
        if isinstance(outcome, WakelineError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
