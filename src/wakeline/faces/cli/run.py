"""`run`: start a harness ready-wired, without a word in its configuration."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from wakeline.connect import files
from wakeline.connect.change import by_file, put_all
from wakeline.connect.record import Connection, Records, name_of
from wakeline.connect.wiring.table import WIRINGS
from wakeline.connect.wiring.wire import Launch, Place, wire
from wakeline.endpoint import find_seats
from wakeline.errors import NotFound
from wakeline.faces.cli.arguments import handle
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.credential import default_handle, find_credential

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from wakeline.faces.cli.context import Context


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("harness", choices=tuple(WIRINGS), metavar="HARNESS", help=", ".join(WIRINGS))
    add("--agent", type=handle, metavar="@NAME", help="who this session is (default: named after the harness)")
    add("--no-allow", action="store_false", dest="allow", help="leave it to the harness to ask before each tool call")


def run(context: Context) -> int:
    """Becomes the harness: its exit code is ours."""
    given = context.arguments
    launch = prepare(context, given.harness)
    program = shutil.which(launch.program, path=context.environ.get("PATH"))
    if program is None:
        hint = "Install it, or put it on the PATH."
        raise NotFound("HARNESS_NOT_FOUND", f"There is no '{launch.program}' on the PATH.", hint)
    environ = {**context.environ, **launch.environ}
    os.execve(program, [program, *launch.arguments, *given.passed], environ)  # noqa: S606 - no shell is wanted


def prepare(context: Context, harness: str) -> Launch:
    """The token and the files that the harness will find, all of them below the data directory."""
    given, endpoint = context.arguments, context.endpoint()
    records = Records(Path(endpoint.data or ""))
    own = records.directory / "run" / f"{harness}{given.agent or ''}"
    key = name_of(f"run-{harness}", own)
    told = wire(endpoint, records.token_file(key), find_seats(str(records.data), context.environ), allow=given.allow)
    launch = WIRINGS[harness].launch(Place(context.environ), told, own)
    with records.locked():
        credential = find_credential(context, key, default_handle(harness, None), records.load(key))
        token, jti = credential.obtain(records.token_file(key))
        files.replace(records.token_file(key), f"{token}\n".encode(), files.PRIVATE)
        records.save(Connection(f"run-{harness}", str(own), credential.handle, str(records.token_file(key)), jti))
        for path, edits in by_file(launch.files).items():
            files.replace(path, put_all(edits, None))
    return launch


COMMANDS = {
    "run": Command(
        run,
        arguments=_arguments,
        usage="HARNESS [-- ARGUMENT…]",
        passes=True,
        examples=(
            "wakeline run claude-code",
            "wakeline run codex --agent @alice -- --model gpt-5",
            "wakeline run pi -- --continue",
        ),
    ),
}
