"""What `connect` and `disconnect` show of their edits, and the question before the first of them is written."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

from wakeline.connect.perform import Step, show
from wakeline.errors import Forbidden
from wakeline.faces.cli.text import one_line, paint, safe

if TYPE_CHECKING:
    from wakeline.connect.record import Records
    from wakeline.faces.cli.context import Context

_TINTS = {"+": "green", "-": "red", "@": "dim"}


def confirm(context: Context, steps: list[Step], who: str) -> None:
    """Show it to a person and ask; a program must say --yes."""
    given = context.arguments
    if given.dry_run or given.yes or all(step.verb == "keep" for step in steps):
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        hint = "Pass --yes to write, or --dry-run to look."
        raise Forbidden("CONFIRMATION_REQUIRED", "Writing into a harness's configuration must be confirmed.", hint)
    sys.stderr.write(f"{_diff(steps)}\n\nWrite this for {who}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Forbidden("NOT_CONFIRMED", "Nothing was written.", "Answer 'y', or pass --yes.")


def answer_of(context: Context, who: str, steps: list[Step], notes: tuple[str, ...]) -> dict[str, Any]:
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


def missing(context: Context, program: str) -> tuple[str, ...]:
    there = shutil.which(program, path=context.environ.get("PATH"))
    return () if there else (f"There is no '{program}' on the PATH; what is written waits for it.",)


def changed_since(steps: list[Step], records: Records) -> list[str]:
    return [
        f"{step.path} was changed since; only what is ours was taken out"
        + (f", and a copy is in {records.directory / 'set-aside'}" if step.aside else "")
        for step in steps
        if step.changed_since
    ]


def _diff(steps: list[Step]) -> str:
    return "\n".join(_tinted(line) for step in steps for line in show(step))


def _tinted(line: str) -> str:
    return paint(safe(line), _TINTS[line[0]]) if line[:1] in _TINTS else safe(line)


def connected_view(answer: dict[str, Any]) -> str:
    diffs = [_tinted(line) for one in answer["files"] for line in one["diff"].split("\n") if one["diff"]]
    changed = [one for one in answer["files"] if one["action"] != "keep"]
    if not changed:
        return f"{answer['harness']} is connected as {answer['handle']} already; nothing to write"
    said = f"{answer['harness']} is connected as {answer['handle']}" if answer["written"] else "nothing was written"
    return "\n".join([*(diffs if not answer["written"] else _brief(changed)), "", said, *answer["notes"]])


def _brief(changed: list[dict[str, Any]]) -> list[str]:
    return [f"{one['action']} {one_line(one['path'])}" for one in changed]


def disconnected_view(answer: dict[str, Any]) -> str:
    changed = [one for one in answer["files"] if one["action"] != "keep"]
    if not answer["written"]:
        return "\n".join(
            [*(_tinted(line) for one in changed for line in one["diff"].split("\n")), "", "nothing was written"]
        )
    return "\n".join([*_restored(changed), f"{answer['harness']} is disconnected", *answer["notes"]])


def _restored(changed: list[dict[str, Any]]) -> list[str]:
    verbs = {"remove": "removed", "change": "restored", "create": "restored"}
    return [f"{verbs[one['action']]} {one_line(one['path'])}" for one in changed]
