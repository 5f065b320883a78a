"""Group commit on SQLite: many commands, one transaction.  Whoever calls this owns the only writing connection.

A batch goes through three steps: load the facts, decide each command in order, write what changed and commit.  What can
go wrong, and what then happens:
- A command is refused: that is its answer; the others of the batch never notice.
- A constraint fails or a decision has a bug: the transaction is rolled back and the batch runs again one by one, so
  only the guilty one fails.  What was known of the database is forgotten and read again.
- The store itself fails (disk full, file gone): the whole batch is answered with that error.  Nothing was written, and
  the next batch tries again, so the server goes on by itself when the disk does.
- Another program holds the database: the batch waits for it a while.  Once that was in vain, the ones after it are
  refused almost at once, until a write gets through again: nobody waits for a wait that has already failed.
- We are killed: nothing of the open transaction is on disk and nobody was answered.

What grew the log may be followed up in the same transaction (`core/store.py`).  If that fails, the batch is carried
without: whoever follows the log does it then.

What will be answered is known before it is written and synced.  Whoever wants it that early gets it as a draft, to
prepare the answers while the disk works; it counts for nothing until the commit.

A large batch may be committed behind our back (`behind.py`), and the next one be decided meanwhile over what is known
without reading.  If that commit fails, or another program wrote in between, what was decided ahead is decided again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

import apsw
import msgspec

from wakeline.core.appended import Appended, appended
from wakeline.core.batch import decide_all, needs_of
from wakeline.core.picture import Changes, Picture
from wakeline.core.store import Command, FollowUp
from wakeline.errors import Internal, Unavailable, WakelineError
from wakeline.store import statements
from wakeline.store.chores import Step
from wakeline.store.known import after
from wakeline.store.sqlite.behind import Behind
from wakeline.store.sqlite.connection import BUSY_MILLISECONDS, begun, transaction, translate
from wakeline.store.sqlite.facts import Loader
from wakeline.store.sqlite.reading import execute, rows

_log = logging.getLogger(__name__)

MAX_BATCH = 512  # of what is asked for at once
HURRIED_MILLISECONDS = 50
WORTH_TIDYING_ROWS = 250  # changed since the last time: two syncs for some fifty posts
_TABLES = ("log", *(name for name in Changes.__slots__ if name not in ("log", "refusals")), "refusals")
_changed = attrgetter(*_TABLES)
_planned = attrgetter(
    "subscriptions", "subscription_tails", "subscription_keys", "wakes", "deliveries", "principals", "cursors"
)
_astuple = msgspec.structs.astuple

Asked = Command[Any] | tuple[Step, ...]  # a command, or statements that are nobody's decision
# An outcome for each command, what was appended to the log, and all that followed from it.
Carried = tuple[list[Any], list[Appended], list[Any]]
UNDER_WAY: Carried = ([], [], [])  # of a batch whose commit goes on behind our back
Draft = Callable[[Carried], None]
Later = Callable[[WakelineError | None], None]  # in another thread: does the draft hold, or why does nothing of it?
Decided = tuple[Picture, list[Any]]


class Batch(msgspec.Struct, frozen=True):
    commands: Sequence[Command[Any]]
    now: int
    whole: bool  # does somebody want to hear what was appended?
    draft: Draft | None = None
    later: Later | None = None  # if given, the commit may go on behind our back


class Commits:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._loader = Loader(connection)
        self._behind = Behind(connection)
        self._put = [statements.load("sqlite", f"put_{name}").text for name in _TABLES]
        self._close_batch = statements.load("sqlite", "close_batch").text
        self._written: list[Picture] = []  # committed, and not learned from yet
        self._followed: dict[int, int] = {}  # by workspace: the row up to which nothing is left to follow up
        self._tidied = 0  # how many rows had been changed then
        self.follow_up: FollowUp | None = None
        self.trouble: WakelineError | None = None  # why the last write failed; None once one succeeds

    # -- what is asked of it ------------------------------------------------------------------------------------------

    def serve(
        self,
        asked: Sequence[Asked],
        now: int,
        *,
        whole: bool,
        draft: Draft | None = None,
        later: Later | None = None,
    ) -> Carried:
        """In order: commands that stand together in one transaction, chores each in their own."""
        if not any(isinstance(one, tuple) for one in asked):
            return self.carry(Batch(asked, now, whole, draft, later))  # type: ignore[arg-type]  # no chores, so commands
        parts: list[Carried] = []
        for are_steps, run in groupby(asked, lambda one: isinstance(one, tuple)):
            if are_steps:
                parts.append(([self.run(steps) for steps in run], [], []))  # type: ignore[arg-type]  # the key says so
            else:
                parts.append(self.carry(Batch(list(run), now, whole)))  # type: ignore[arg-type]  # and here
        return _joined(parts)

    def carry(self, batch: Batch) -> Carried:
        """All of them in one transaction, if they let us."""
        try:
            return self._carry(batch, self.follow_up)
        except Exception as error:  # noqa: BLE001 - whatever it is, we go on and everybody is answered
            failure = _failure(error)
            if isinstance(failure, Unavailable):
                return self._refuse(batch.commands, failure)
        return _joined(self._carry_alone(command, batch) for command in batch.commands)

    def _carry_alone(self, command: Command[Any], batch: Batch) -> Carried:
        """And with nothing after it, so that it can fail only by itself."""
        try:
            return self._carry(Batch([command], batch.now, batch.whole), None)
        except Exception as error:  # noqa: BLE001 - as above
            return self._refuse([command], _failure(error))

    def _carry(self, batch: Batch, follow_up: FollowUp | None) -> Carried:
        self.learn()
        ahead = self._decide_ahead(batch) if self._behind.is_busy else {}
        if not self.finish():
            ahead = {}
        try:
            carried = self._commit(batch, follow_up, ahead)
        except Exception:
            self._forget()
            raise
        if carried is not UNDER_WAY:
            self._note(None)
        return carried

    def finish(self) -> bool:
        """Wait for the commit that is under way behind our back.  False if it failed."""
        if not self._behind.is_busy:
            return True
        error = self._behind.wait()
        if error is None:
            self._loader.committed()
        else:
            self._written.clear()
            self._forget()
        self._note(None if error is None else _failure(error))
        return error is None

    def tidy(self) -> None:
        """While nobody asks for anything: bring what was written from the write-ahead log into the database.

        Whoever reads looks for every page in that log first: in a long one, a third of the time of a page of a thread.
        """
        self.finish()
        changed = self._connection.total_changes()
        if changed - self._tidied >= WORTH_TIDYING_ROWS:
            self._tidied = changed
            with suppress(apsw.Error):  # a disk that does not let us says so at the next commit
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _forget(self) -> None:
        self._loader.forget()
        self._followed.clear()

    def _refuse(self, commands: Sequence[Command[Any]], failure: WakelineError) -> Carried:
        self._note(failure)
        return [failure.again() for _ in commands], [], []

    def run(self, steps: Sequence[Step]) -> list[int] | WakelineError:
        """Statements that are nobody's decision, alone in a transaction: how many rows each changed."""
        self.finish()
        self._written.clear()
        self._loader.forget()
        try:
            with transaction(self._connection):
                counts = [self._execute(name, parameters) for name, parameters in steps]
        except Exception as error:  # noqa: BLE001 - as above
            failure = _failure(error)
            self._note(failure)
            return failure
        self._note(None)
        return counts

    def _execute(self, name: str, parameters: Mapping[str, Any]) -> int:
        execute(self._connection, name, parameters).fetchall()
        return self._connection.changes()

    def _note(self, trouble: WakelineError | None) -> None:
        if trouble is not self.trouble:
            busy = trouble is not None and trouble.code == "STORE_BUSY"
            self._connection.set_busy_timeout(HURRIED_MILLISECONDS if busy else BUSY_MILLISECONDS)
            self.trouble = trouble

    # -- one transaction ----------------------------------------------------------------------------------------------

    def learn(self) -> None:
        """Remember what the last batch wrote.  Once its senders are answered: none of them waits for this."""
        for picture in self._written:
            self._loader.wrote(picture)
        self._written.clear()

    def _commit(self, batch: Batch, follow_up: FollowUp | None, ahead: dict[int, Decided]) -> Carried:
        with begun(self._connection):
            if not self._loader.begin():
                ahead = {}
            pictures, carried = self._fill(batch, follow_up, ahead)
            if batch.draft is not None:
                batch.draft(carried)
            if batch.later is None:
                self._connection.execute("COMMIT")
                self._loader.committed()
        self._written = pictures
        if batch.later is None:
            return carried
        later = batch.later
        self._behind.start(lambda error: later(None if error is None else _failure(error)))
        return UNDER_WAY

    def _fill(
        self, batch: Batch, follow_up: FollowUp | None, ahead: dict[int, Decided]
    ) -> tuple[list[Picture], Carried]:
        """A workspace at a time, each over its own picture."""
        outcomes: list[Any] = [None] * len(batch.commands)
        pictures: list[Picture] = []
        followed: list[Any] = []
        for workspace_id, places in _by_workspace(batch.commands).items():
            picture, answers = ahead.get(workspace_id) or self._decide(
                workspace_id, [batch.commands[n] for n in places], batch.now
            )
            for n, answer in zip(places, answers, strict=True):
                outcomes[n] = answer
            follows = follow_up is not None and self._may_follow(picture, follow_up)
            more = self._follow_at_hand(picture, follow_up, batch.now) if follow_up and follows else []
            written = [picture] if self._write(picture) else []
            if follow_up and more is None:
                more = self._follow(picture, follow_up, batch.now, written)
            followed += more or []
            self._close(written)
            pictures += written
        grown = [appended(picture, whole=batch.whole) for picture in pictures if picture.changes.log]
        return pictures, (outcomes, grown, followed)

    def _may_follow(self, picture: Picture, follow_up: FollowUp) -> bool:
        """Does anybody want what follows from this, and is nothing left to follow up before it?"""
        if not picture.changes.log:
            return False
        workspace_id, before = picture.workspace.workspace_id, picture.workspace.last_log_id
        read = partial(rows, self._connection)
        watched = self._loader.watched
        if workspace_id not in watched:
            watched[workspace_id] = follow_up.is_wanted(read, workspace_id)
        if not watched[workspace_id]:
            return False
        if self._followed.get(workspace_id) != before and not follow_up.may_follow(read, workspace_id, before):
            return False
        self._followed[workspace_id] = picture.last_log_id
        return bool(picture.changes.messages)

    def _follow_at_hand(self, picture: Picture, follow_up: FollowUp, now: int) -> list[Any] | None:
        """What follows from this, decided over the same picture.  None if something must be read for it."""
        if any(_planned(picture.changes)):  # and is not learned yet
            return None
        workspace_id = picture.workspace.workspace_id
        found = follow_up.at_hand(picture, partial(self._loader.watchers, workspace_id))
        if found is None:
            return None
        command = follow_up.command(workspace_id, found, now)
        if command is None:
            return []
        facts = self._loader.recall(workspace_id, needs_of([command]), now)
        if facts is None:
            return None
        picture.learn(facts)
        return self._answers(picture, decide_all([command], picture))

    def _follow(self, picture: Picture, follow_up: FollowUp, now: int, written: list[Picture]) -> list[Any]:
        """What follows from what was just written, written too."""
        workspace_id, before, last = picture.workspace.workspace_id, picture.workspace.last_log_id, picture.last_log_id
        found = follow_up.find(partial(rows, self._connection), workspace_id, before, last)
        command = follow_up.command(workspace_id, found, now)
        if command is None:
            return []
        more, answers = self._decide(workspace_id, [command], now, picture)
        self._write(more)
        written.append(more)
        return self._answers(more, answers)

    def _answers(self, picture: Picture, answers: list[Any]) -> list[Any]:
        """All that followed, which was refused nothing."""
        for answer in answers:
            if isinstance(answer, WakelineError):
                raise answer
        self._followed[picture.workspace.workspace_id] = picture.last_log_id
        return [one for answer in answers for one in answer]

    def _decide(
        self, workspace_id: int, commands: Sequence[Command[Any]], now: int, before: Picture | None = None
    ) -> tuple[Picture, list[Any]]:
        facts = self._loader.load(workspace_id, needs_of(commands), now, before)
        if before is not None:
            facts.workspace = after(before)
        picture = Picture(facts)
        if before is not None:
            picture.inherit(before)
        return picture, decide_all(commands, picture)

    def _decide_ahead(self, batch: Batch) -> dict[int, Decided]:
        """As if the commit under way had succeeded.  Nothing, if anything must be read from the database."""
        decided: dict[int, Decided] = {}
        with suppress(Exception):  # a bug shows again when its turn comes, and only there is it dealt with
            for workspace_id, places in _by_workspace(batch.commands).items():
                commands = [batch.commands[n] for n in places]
                facts = self._loader.recall(workspace_id, needs_of(commands), batch.now)
                if facts is None:
                    return {}
                picture = Picture(facts)
                decided[workspace_id] = picture, decide_all(commands, picture)
            return decided
        return {}

    def _write(self, picture: Picture) -> bool:
        """Put every changed row.  Answers whether there was any."""
        changed = [(put, table) for put, table in zip(self._put, _changed(picture.changes), strict=True) if table]
        for put, table in changed:
            rows = table if isinstance(table, list) else table.values()
            self._connection.executemany(put, [_astuple(row) for row in rows])
        if picture.changes.principals:
            _write_roles(self._connection, picture)
        return bool(changed)

    def _close(self, written: Sequence[Picture]) -> None:
        """Say in the workspace how far its log goes now, and that something changed for each of these."""
        if written:
            last = written[-1]
            row = (last.last_log_id, len(written), last.workspace.workspace_id)
            self._connection.execute(self._close_batch, row)


def _by_workspace(commands: Sequence[Command[Any]]) -> dict[int, list[int]]:
    """Which of them are whose: their places."""
    found: dict[int, list[int]] = {}
    for place, command in enumerate(commands):
        found.setdefault(command.workspace_id, []).append(place)
    return found


def _joined(parts: Iterable[Carried]) -> Carried:
    joined: Carried = ([], [], [])
    for part in parts:
        for whole, some in zip(joined, part, strict=True):
            whole.extend(some)
    return joined


def _failure(error: Exception) -> WakelineError:
    if isinstance(error, WakelineError):
        return error
    if isinstance(error, apsw.Error | OSError) and not isinstance(known := translate(error), Internal):
        return known
    _log.error("a write failed because of a bug", exc_info=error)
    return Internal("INTERNAL", "The write failed because of a bug; nothing was written.")


def _write_roles(connection: apsw.Connection, picture: Picture) -> None:
    for row in picture.changes.principals.values():
        connection.execute(statements.load("sqlite", "forget_role_holders").text, (row.workspace_id, row.handle))
        roles = [] if row.retired_at is not None else row.roles.split()
        connection.executemany(
            statements.load("sqlite", "put_role_holders").text,
            [(row.workspace_id, role, row.handle) for role in roles],
        )
