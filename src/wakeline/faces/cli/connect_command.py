"""`connect command`: an agent is rung by a command of its operator, which stands in the bridge's book.

All agents share one file.  So there is one record of it, with the entries of all of them, and one for each agent's
token: whoever goes first or last, the file comes back as it was before the first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from wakeline.adapters.command.adapter import TRANSPORT
from wakeline.adapters.command.book import parse_book, recipes
from wakeline.connect import files
from wakeline.connect.change import Table
from wakeline.connect.jsonc import NotEditable
from wakeline.connect.perform import Step, check_writable, plan, restore, unusable, write
from wakeline.connect.record import Connection, Records, name_of
from wakeline.core.seat import COMMAND
from wakeline.errors import NotFound, WakelineError
from wakeline.faces.cli.arguments import usage_error
from wakeline.faces.cli.connect_shown import (
    answer_of,
    changed_since,
    confirm,
    connected_view,
    disconnected_view,
    missing,
)
from wakeline.faces.cli.credential import Credential, find_credential, revoke
from wakeline.runtime.settings import commands_path, load

if TYPE_CHECKING:
    from wakeline.faces.cli.context import Context

NAME = "command"


class Book:
    """The file, what is recorded of it, and the record of one agent's token."""

    def __init__(self, context: Context, handle: str) -> None:
        self.records = Records(Path(context.endpoint().data or ""))
        settings, _ = load({"data": str(self.records.data)}, context.environ)
        self.path = commands_path(settings).absolute()
        self.agent = self.path / handle  # no such file: the place of its record
        self.key = name_of(NAME, self.agent)
        self._handle = handle

    def record(self) -> Connection:
        token_file = self.records.token_file(name_of(NAME, self.path))  # never made
        return self.records.load(name_of(NAME, self.path)) or Connection(NAME, str(self.path), "", str(token_file))

    def plan(self, entry: dict[str, Any] | None) -> list[Step]:
        """With this entry for the agent, or without any; those of others stay where they are."""
        record = self.record()
        tables = {edit.keys: edit for kept in record.files for edit in kept.edits if isinstance(edit, Table)}
        if entry is None:
            tables.pop((self._handle,), None)
        else:
            tables[self._handle,] = Table(str(self.path), (self._handle,), entry)
        steps = plan([*tables.values()], record)
        check_writable(steps)
        return steps

    def write(self, steps: list[Step]) -> None:
        if any(step.edits for step in steps):
            write(steps, self.record(), self.records)
        else:
            restore(steps, self.record(), self.records)


def connect(context: Context) -> int:
    given = context.arguments
    entry = _entry(context)
    book = Book(context, given.agent)
    with book.records.locked(quietly=given.dry_run):
        credential = find_credential(context, book.key, given.agent, book.records.load(book.key))
        steps = book.plan(entry)
        _check(steps)
        confirm(context, steps, credential.handle)
        if not given.dry_run:
            _write(book, credential, steps)
    answer = answer_of(context, credential.handle, steps, _notes(context, book, entry))
    return context.show(answer, connected_view)


def _entry(context: Context) -> dict[str, Any]:
    given = context.arguments
    if given.agent is None:
        raise usage_error("Whose command?", "Name the agent: --agent @bob -- COMMAND…")
    if bool(given.passed) == (given.recipe is not None):
        raise usage_error("Which command?", f"Give one behind '--', or --recipe {' or '.join(recipes())}.")
    if given.recipe is not None and given.recipe not in recipes():
        raise usage_error(f"There is no recipe {given.recipe}.", f"There are {', '.join(recipes())}.")
    return {"recipe": given.recipe} if given.recipe is not None else {"argv": list(given.passed)}


def _check(steps: list[Step]) -> None:
    """The bridge must be able to read what it would find, whoever wrote the rest of it."""
    for step in steps:
        try:
            parse_book((step.after or b"").decode())
        except ValueError as error:
            raise unusable(step.path, NotEditable(str(error))) from None


def _write(book: Book, credential: Credential, steps: list[Step]) -> None:
    """The token first: until the book is written, nothing rings."""
    token_file = book.records.token_file(book.key)
    token, jti = credential.obtain(token_file)
    files.replace(token_file, f"{token}\n".encode(), files.PRIVATE)
    book.records.save(Connection(NAME, str(book.agent), credential.handle, str(token_file), jti))
    book.write(steps)
    credential.tidy(jti)


def _notes(context: Context, book: Book, entry: dict[str, Any]) -> tuple[str, ...]:
    program = entry["argv"][0] if "argv" in entry else recipes()[entry["recipe"]].argv[0]
    beat = f"wakeline session heartbeat --transport {TRANSPORT} --capability {COMMAND} --harness NAME --native-id ID"
    return (
        f"its token is in {book.records.token_file(book.key)}: give it to the agent as WAKELINE_TOKEN_FILE",
        f"a session says once that it is rung so: {beat} --pid PID --presence idle",
        *missing(context, program),
    )


def disconnect(context: Context) -> int:
    given = context.arguments
    if given.agent is None:
        raise usage_error("Whose command?", "Name the agent: --agent @bob.")
    book = Book(context, given.agent)
    with book.records.locked(quietly=given.dry_run):
        own = book.records.load(book.key)
        if own is None:
            hint = "'wakeline config' shows where the commands are."
            raise NotFound("NOT_CONNECTED", f"{given.agent} has no command in {book.path} that we wrote.", hint)
        steps = book.plan(None)
        notes = [] if given.dry_run else _take_back(context, book, own, steps)
    return context.show(answer_of(context, given.agent, steps, tuple(notes)), disconnected_view)


def _take_back(context: Context, book: Book, own: Connection, steps: list[Step]) -> list[str]:
    book.write(steps)
    notes = changed_since(steps, book.records)
    try:
        revoke(context, own)
    except WakelineError as error:
        notes.append(f"the token {own.jti} could not be revoked: {error.message}")
    files.remove(Path(own.token_file))
    book.records.forget(own.key)
    return notes
