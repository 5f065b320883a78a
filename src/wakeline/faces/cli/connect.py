"""`connect` and `disconnect`: wire a harness to this server, and take every trace of it away again."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wakeline.connect import files
from wakeline.connect.perform import Step, check_writable, plan, restore, show, undo, write
from wakeline.connect.record import Connection, Records, name_of
from wakeline.connect.wiring.table import WIRINGS
from wakeline.connect.wiring.wire import Place, wire
from wakeline.endpoint import find_seats
from wakeline.errors import Forbidden, NotFound, WakelineError
from wakeline.faces.cli import connect_tmux
from wakeline.faces.cli.arguments import handle, usage_error
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.credential import Credential, default_handle, find_credential, revoke
from wakeline.faces.cli.text import one_line, paint, safe

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from wakeline.faces.cli.context import Context

_TINTS = {"+": "green", "-": "red", "@": "dim"}


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("harness", choices=(*WIRINGS, connect_tmux.NAME), metavar="HARNESS", help=", ".join((*WIRINGS, "tmux")))
    add("--agent", type=handle, metavar="@NAME", help="who its sessions are (default: named after the harness)")
    add("--project", type=Path, metavar="DIR", help="only for this project, not for everything that you do")
    add("--pane", metavar="%N", help="tmux: the pane that the agent runs in")
    add("--no-allow", action="store_false", dest="allow", help="leave it to the harness to ask before each tool call")
    add("--dry-run", action="store_true", help="show what would be written, and write nothing")
    add("--yes", action="store_true", help="write without asking")


def connect(context: Context) -> int:
    given = context.arguments
    if given.harness == connect_tmux.NAME:
        return connect_tmux.connect(context)
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
        if not (given.dry_run or _agree(context, steps, credential)):
            raise Forbidden("NOT_CONFIRMED", "Nothing was written.", "Answer 'y', or pass --yes.")
        if not given.dry_run:
            _write(credential, steps, records, _connection(given.harness, wiring.root(place), records, previous))
    answer = _answer(context, credential.handle, steps, (*wiring.notes(place), *_missing(context, wiring.program)))
    return context.show(answer, _connected_view)


def _missing(context: Context, program: str) -> tuple[str, ...]:
    there = shutil.which(program, path=context.environ.get("PATH"))
    return () if there else (f"There is no '{program}' on the PATH; what is written waits for it.",)


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


def _agree(context: Context, steps: list[Step], credential: Credential) -> bool:
    """Show it to a person and ask; a program must say --yes."""
    given = context.arguments
    if given.yes or all(step.verb == "keep" for step in steps):
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        hint = "Pass --yes to write, or --dry-run to look."
        raise Forbidden("CONFIRMATION_REQUIRED", "Writing into a harness's configuration must be confirmed.", hint)
    sys.stderr.write(f"{_diff(steps)}\n\nWrite this for {credential.handle}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _answer(context: Context, who: str, steps: list[Step], notes: tuple[str, ...]) -> dict[str, Any]:
    given = context.arguments
    return {
        "harness": given.harness,
        "handle": who,
        "written": not given.dry_run,
        "files": [
            {
                "path": str(step.path),
                "action": step.verb,
                "changed_since": step.changed_since,
                "diff": "\n".join(show(step)),
            }
            for step in steps
        ],
        "notes": list(notes),
    }


def _diff(steps: list[Step]) -> str:
    return "\n".join(_tinted(line) for step in steps for line in show(step))


def _tinted(line: str) -> str:
    return paint(safe(line), _TINTS[line[0]]) if line[:1] in _TINTS else safe(line)


def _connected_view(answer: dict[str, Any]) -> str:
    diffs = [_tinted(line) for one in answer["files"] for line in one["diff"].split("\n") if one["diff"]]
    changed = [one for one in answer["files"] if one["action"] != "keep"]
    if not changed:
        return f"{answer['harness']} is connected as {answer['handle']} already; nothing to write"
    said = f"{answer['harness']} is connected as {answer['handle']}" if answer["written"] else "nothing was written"
    return "\n".join([*(diffs if not answer["written"] else _brief(changed)), "", said, *answer["notes"]])


def _brief(changed: list[dict[str, Any]]) -> list[str]:
    return [f"{one['action']} {one_line(one['path'])}" for one in changed]


# -- back -------------------------------------------------------------------------------------------------------------


def _disconnect_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("harness", choices=(*WIRINGS, connect_tmux.NAME), metavar="HARNESS", help=", ".join((*WIRINGS, "tmux")))
    add("--project", type=Path, metavar="DIR", help="the project that it was connected for")
    add("--pane", metavar="%N", help="tmux: the pane")
    add("--dry-run", action="store_true", help="show what would be taken away, and change nothing")


def disconnect(context: Context) -> int:
    given = context.arguments
    if given.harness == connect_tmux.NAME:
        return connect_tmux.disconnect(context)
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
    answer = _answer(context, connection.handle, steps, tuple(notes))
    return context.show(answer, _disconnected_view)


def _take_back(context: Context, steps: list[Step], connection: Connection, records: Records) -> list[str]:
    restore(steps, connection, records)
    notes = [
        f"{step.path} was changed since; only what is ours was taken out"
        + (f", and a copy is in {records.directory / 'set-aside'}" if step.aside else "")
        for step in steps
        if step.changed_since
    ]
    try:
        revoke(context, connection)
    except WakelineError as error:
        notes.append(f"the token {connection.jti} could not be revoked: {error.message}")
    return notes


def _disconnected_view(answer: dict[str, Any]) -> str:
    changed = [one for one in answer["files"] if one["action"] != "keep"]
    if not answer["written"]:
        return "\n".join(
            [*(_tinted(line) for one in changed for line in one["diff"].split("\n")), "", "nothing was written"]
        )
    return "\n".join([*_restored(changed), f"{answer['harness']} is disconnected", *answer["notes"]])


def _restored(changed: list[dict[str, Any]]) -> list[str]:
    verbs = {"remove": "removed", "change": "restored", "create": "restored"}
    return [f"{verbs[one['action']]} {one_line(one['path'])}" for one in changed]


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
        usage="HARNESS",
        examples=(
            "wakeline connect claude-code",
            "wakeline connect codex --agent @alice --dry-run",
            "wakeline connect opencode --project . --yes",
            "wakeline connect tmux --pane %3 --agent @bob",
        ),
    ),
    "disconnect": Command(
        disconnect,
        arguments=_disconnect_arguments,
        usage="HARNESS",
        examples=("wakeline disconnect claude-code", "wakeline disconnect opencode --project ."),
    ),
}
