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
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import apsw
import msgspec

from wakeline.core.appended import Appended, appended
from wakeline.core.batch import decide_all, needs_of
from wakeline.core.picture import Changes, Picture
from wakeline.core.store import Command
from wakeline.errors import Internal, Unavailable, WakelineError
from wakeline.store import statements
from wakeline.store.chores import Step
from wakeline.store.sqlite.connection import BUSY_MILLISECONDS, transaction, translate
from wakeline.store.sqlite.facts import Loader

_log = logging.getLogger(__name__)

MAX_BATCH = 512  # of what is asked for at once
HURRIED_MILLISECONDS = 50
_TABLES = ("log", *(name for name in Changes.__slots__ if name not in ("log", "refusals")), "refusals")
_rows = attrgetter(*_TABLES)
_astuple = msgspec.structs.astuple

Asked = Command[Any] | tuple[Step, ...]  # a command, or statements that are nobody's decision
Carried = tuple[list[Any], list[Appended]]  # an outcome for each command, and what was appended to the log


class Commits:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._loader = Loader(connection)
        self._put = {name: statements.load("sqlite", f"put_{name}").text for name in _TABLES}
        self._close_batch = statements.load("sqlite", "close_batch").text
        self.trouble: WakelineError | None = None  # why the last write failed; None once one succeeds

    # -- what is asked of it ------------------------------------------------------------------------------------------

    def serve(self, asked: Sequence[Asked], now: int, *, whole: bool) -> Carried:
        """In order: commands that stand together in one transaction, chores each in their own."""
        outcomes: list[Any] = []
        told: list[Appended] = []
        for are_steps, run in groupby(asked, lambda one: isinstance(one, tuple)):
            if are_steps:
                outcomes += [self.run(steps) for steps in run]  # type: ignore[arg-type]  # the key says so
            else:
                ours, rows = self.carry(list(run), now, whole=whole)  # type: ignore[arg-type]  # and here
                outcomes += ours
                told += rows
        return outcomes, told

    def carry(self, commands: Sequence[Command[Any]], now: int, *, whole: bool) -> Carried:
        """All of them in one transaction, if they let us.  `whole`: somebody wants to hear what was appended."""
        try:
            carried = self._commit(commands, now, whole=whole)
        except Exception as error:  # noqa: BLE001 - whatever it is, we go on and everybody is answered
            self._loader.forget()
            failure = _failure(error)
            if not isinstance(failure, Unavailable) and len(commands) > 1:
                return self._carry_each(commands, now, whole=whole)
            self._note(failure)
            return [failure.again() for _ in commands], []
        self._note(None)
        return carried

    def _carry_each(self, commands: Sequence[Command[Any]], now: int, *, whole: bool) -> Carried:
        carried = [self.carry([command], now, whole=whole) for command in commands]
        return [one for outcomes, _ in carried for one in outcomes], [one for _, told in carried for one in told]

    def run(self, steps: Sequence[Step]) -> list[int] | WakelineError:
        """Statements that are nobody's decision, alone in a transaction: how many rows each changed."""
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
        statement = statements.load("sqlite", name)
        self._connection.execute(statement.text, tuple(parameters[key] for key in statement.parameters)).fetchall()
        return self._connection.changes()

    def _note(self, trouble: WakelineError | None) -> None:
        if trouble is not self.trouble:
            busy = trouble is not None and trouble.code == "STORE_BUSY"
            self._connection.set_busy_timeout(HURRIED_MILLISECONDS if busy else BUSY_MILLISECONDS)
            self.trouble = trouble

    # -- one transaction ----------------------------------------------------------------------------------------------

    def _commit(self, commands: Sequence[Command[Any]], now: int, *, whole: bool) -> Carried:
        """A workspace at a time, each over its own picture."""
        outcomes: list[Any] = [None] * len(commands)
        pictures: list[Picture] = []
        with transaction(self._connection):
            self._loader.begin()
            for workspace_id in dict.fromkeys(command.workspace_id for command in commands):
                places = [n for n, command in enumerate(commands) if command.workspace_id == workspace_id]
                picture, answers = self._decide(workspace_id, [commands[n] for n in places], now)
                for n, answer in zip(places, answers, strict=True):
                    outcomes[n] = answer
                self._write(picture)
                pictures.append(picture)
        for picture in pictures:
            self._loader.wrote(picture)
        return outcomes, [appended(picture, whole=whole) for picture in pictures if picture.changes.log]

    def _decide(self, workspace_id: int, commands: Sequence[Command[Any]], now: int) -> tuple[Picture, list[Any]]:
        picture = Picture(self._loader.load(workspace_id, needs_of(commands), now))
        return picture, decide_all(commands, picture)

    def _write(self, picture: Picture) -> None:
        """Put every changed row."""
        changes = picture.changes
        if not changes:
            return
        for name, rows in zip(_TABLES, _rows(changes), strict=True):
            if rows:
                values = rows if name == "log" else rows.values()
                self._connection.executemany(self._put[name], [_astuple(row) for row in values])
        if changes.principals:
            _write_roles(self._connection, picture)
        self._connection.execute(self._close_batch, (picture.last_log_id, picture.workspace.workspace_id))


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
