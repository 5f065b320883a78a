"""`connect` and `disconnect`: wire a harness to this server, and take every trace of it away again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wakeline.connect import files
from wakeline.connect.perform import Step, check_writable, plan, restore, undo, write
from wakeline.connect.record import Connection, Records, name_of
from wakeline.connect.wiring.table import WIRINGS
from wakeline.connect.wiring.wire import Place, wire
from wakeline.endpoint import find_seats
from wakeline.errors import NotFound, WakelineError
from wakeline.faces.cli import connect_command, connect_tmux
from wakeline.faces.cli.arguments import handle, usage_error
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.connect_shown import (
    answer_of,
    changed_since,
    confirm,
    connected_view,
    disconnected_view,
    missing,
)
from wakeline.faces.cli.credential import Credential, default_handle, find_credential, revoke

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from wakeline.faces.cli.context import Context

# Ways in that are no harness's own.
_OTHER_WAYS = {
    connect_tmux.NAME: (connect_tmux.connect, connect_tmux.disconnect),
    connect_command.NAME: (connect_command.connect, connect_command.disconnect),
}
_NAMES = (*WIRINGS, *_OTHER_WAYS)


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("harness", choices=_NAMES, metavar="HARNESS", help=", ".join(_NAMES))
    add("--agent", type=handle, metavar="@NAME", help="who its sessions are (default: named after the harness)")
    add("--project", type=Path, metavar="DIR", help="only for this project, not for everything that you do")
    add("--pane", metavar="%N", help="tmux: the pane that the agent runs in")
    add("--recipe", metavar="NAME", help="command: one that is shipped, instead of your own")
    add("--no-allow", action="store_false", dest="allow", help="leave it to the harness to ask before each tool call")
    add("--dry-run", action="store_true", help="show what would be written, and write nothing")
    add("--yes", action="store_true", help="write without asking")


def connect(context: Context) -> int:
    given = context.arguments
    if given.passed and given.harness != connect_command.NAME:
        raise usage_error(f"Nothing is passed to {given.harness}.", "'wakeline run' passes what stands behind '--'.")
    if given.harness in _OTHER_WAYS:
        return _OTHER_WAYS[given.harness][0](context)
    place, records = _place(context), _records(context)
    wiring = WIRINGS[given.harness]
    key = name_of(given.harness, wiring.root(place))
    with records.locked(quietly=given.dry_run):
        previous = records.load(key)
        credential = find_credential(context, key, default_handle(given.harness, place.project), previous)
        told = wire(
            context.endpoint(),
            records.token_file(key),
            find_seats(str(records.data), context.environ),
            allow=given.allow,
        )
        steps = plan(wiring.edits(place, told), previous)
        check_writable(steps)
        confirm(context, steps, credential.handle)
        if not given.dry_run:
            _write(credential, steps, records, _connection(given.harness, wiring.root(place), records, previous))
    answer = answer_of(context, credential.handle, steps, (*wiring.notes(place), *missing(context, wiring.program)))
    return context.show(answer, connected_view)


def _connection(harness: str, root: Path, records: Records, previous: Connection | None) -> Connection:
    token_file = records.token_file(name_of(harness, root))
    kept = [] if previous is None else previous.files
    return Connection(harness, str(root), "", str(token_file), files=kept)


def _write(credential: Credential, steps: list[Step], records: Records, connection: Connection) -> None:
    """The token first: what is written after it already needs it."""
    token, jti = credential.obtain(Path(connection.token_file))
    files.replace(Path(connection.token_file), f"{token}\n".encode(), files.PRIVATE)
    write(steps, msgspec.structs.replace(connection, handle=credential.handle, jti=jti), records)
    credential.tidy(jti)


# -- back -------------------------------------------------------------------------------------------------------------


def _disconnect_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("harness", choices=_NAMES, metavar="HARNESS", help=", ".join(_NAMES))
    add("--project", type=Path, metavar="DIR", help="the project that it was connected for")
    add("--pane", metavar="%N", help="tmux: the pane")
    add("--agent", type=handle, metavar="@NAME", help="command: whose")
    add("--dry-run", action="store_true", help="show what would be taken away, and change nothing")


def disconnect(context: Context) -> int:
    given = context.arguments
    if given.harness in _OTHER_WAYS:
        return _OTHER_WAYS[given.harness][1](context)
    place, records = _place(context), _records(context)
    root = WIRINGS[given.harness].root(place)
    with records.locked(quietly=given.dry_run):
        connection = records.load(name_of(given.harness, root))
        if connection is None:
            hint = "'--project DIR' names a project's connection; CLAUDE_CONFIG_DIR and its like must be as they were."
            raise NotFound("NOT_CONNECTED", f"{given.harness} is not connected at {root}.", hint)
        steps = [undo(kept) for kept in connection.files]
        check_writable(steps)
        notes = [] if given.dry_run else _take_back(context, steps, connection, records)
    answer = answer_of(context, connection.handle, steps, tuple(notes))
    return context.show(answer, disconnected_view)


def _take_back(context: Context, steps: list[Step], connection: Connection, records: Records) -> list[str]:
    restore(steps, connection, records)
    notes = changed_since(steps, records)
    try:
        revoke(context, connection)
    except WakelineError as error:
        notes.append(f"the token {connection.jti} could not be revoked: {error.message}")
    return notes


# -- where ------------------------------------------------------------------------------------------------------------


def _place(context: Context) -> Place:
    project: Path | None = context.arguments.project
    if project is not None and not project.is_dir():
        raise usage_error(f"{project} is not a directory.", "Name the project's own directory.")
    return Place(context.environ, None if project is None else project.resolve())


def _records(context: Context) -> Records:
    return Records(Path(context.endpoint().data or ""))


COMMANDS = {
    "connect": Command(
        connect,
        arguments=_arguments,
        usage="HARNESS [-- COMMAND…]",
        passes=True,
        examples=(
            "wakeline connect claude-code",
            "wakeline connect codex --agent @alice --dry-run",
            "wakeline connect opencode --project . --yes",
            "wakeline connect tmux --pane %3 --agent @bob",
            "wakeline connect command --agent @bob -- notify-bob {native_id} {text}",
        ),
    ),
    "disconnect": Command(
        disconnect,
        arguments=_disconnect_arguments,
        usage="HARNESS",
        examples=("wakeline disconnect claude-code", "wakeline disconnect opencode --project ."),
    ),
}
