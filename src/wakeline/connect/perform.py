"""Plan the files of a connection, write them, and put them back.

Each file goes from old to new in one step, and the record of the connection knows both.  So it does not matter where a
run ends: the next one finds every file either as it was or as it was meant to be, and goes on.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from wakeline.connect import files
from wakeline.connect.change import Edit, Whole, by_file, put_all, take_all
from wakeline.connect.jsonc import NotEditable
from wakeline.connect.record import Connection, Kept, Records, digest
from wakeline.errors import Conflict


class Step(msgspec.Struct, frozen=True):
    """One file on its way: how it is, how it was without us, and how it is to be.  None: no such file."""

    path: Path
    current: bytes | None
    before: bytes | None
    after: bytes | None
    edits: list[Edit]
    changed_since: bool = False  # somebody else wrote to it after us
    aside: bool = False  # what they wrote would be lost, so a copy of it is kept

    @property
    def verb(self) -> str:
        if self.after == self.current:
            return "keep"
        if self.after is None:
            return "remove"
        return "create" if self.current is None else "change"


def plan(edits: list[Edit], previous: Connection | None) -> list[Step]:
    """What must be written so that these edits are in place, and what an earlier run wrote elsewhere is not."""
    known = {} if previous is None else {Path(kept.path): kept for kept in previous.files}
    wanted = by_file(edits)
    steps = [_guarded(path, mine, known.get(path)) for path, mine in wanted.items()]
    return [*(undo(kept) for path, kept in known.items() if path not in wanted), *steps]


def _guarded(path: Path, edits: list[Edit], kept: Kept | None) -> Step:
    try:
        return _step(path, edits, kept)
    except NotEditable as error:
        raise unusable(path, error) from None


def _step(path: Path, edits: list[Edit], kept: Kept | None) -> Step:
    current = files.read(path)
    if kept is None or current is None:
        return Step(path, current, current, put_all(edits, current), edits)
    if current == kept.before or digest(current) == kept.after:
        return Step(path, current, kept.before, put_all(edits, kept.before), edits)
    stale = [edit for edit in kept.edits if edit not in edits]
    after = put_all(edits, take_all(stale, current, kept.before))
    before = take_all(kept.edits, current, kept.before)
    return Step(path, current, before, after, edits, changed_since=True, aside=_is_ours(kept))


def undo(kept: Kept) -> Step:
    """The file as it was before us; if somebody changed it since, as it is now without ours."""
    path = Path(kept.path)
    current = files.read(path)
    if current is None or current == kept.before:
        return Step(path, current, current, current, [])
    if digest(current) == kept.after:
        return Step(path, current, kept.before, kept.before, [])
    try:
        left = take_all(kept.edits, current, kept.before)
    except NotEditable as error:
        raise unusable(path, error) from None
    return Step(path, current, left, left, [], changed_since=True, aside=_is_ours(kept))


def _is_ours(kept: Kept) -> bool:
    return any(isinstance(edit, Whole) for edit in kept.edits)


def write(steps: Sequence[Step], connection: Connection, records: Records) -> Connection:
    """Write the record, then the files, then the record again.  `connection` comes with the files of its last time."""
    kept = [_keep(step, connection) for step in steps if step.edits]
    gone = [one for one in connection.files if one.path not in {mine.path for mine in kept}]
    records.save(msgspec.structs.replace(connection, files=[*kept, *gone], complete=False))
    for step in steps:
        perform(step, connection.key, records)
    for one in gone:
        files.remove_empty(map(Path, one.made))
    done = msgspec.structs.replace(connection, files=kept, complete=True)
    records.save(done)
    return done


def _keep(step: Step, connection: Connection) -> Kept:
    earlier = next((one.made for one in connection.files if one.path == str(step.path)), ())
    made = {*earlier, *map(str, files.missing_directories(step.path))}
    after = digest(step.after if step.after is not None else b"")
    return Kept(str(step.path), step.before, after, step.edits, tuple(sorted(made)))


def restore(steps: Sequence[Step], connection: Connection, records: Records) -> None:
    """Put the files back, in the opposite order, and forget the connection."""
    for step in reversed(steps):
        perform(step, connection.key, records)
    files.remove(Path(connection.token_file))
    files.remove_empty(Path(made) for kept in connection.files for made in kept.made)
    records.forget(connection.key)


def perform(step: Step, key: str, records: Records) -> None:
    if step.verb == "keep":
        return
    if files.read(step.path) != step.current:
        raise Conflict(
            "CONFIG_CHANGED", f"{step.path} was changed while this ran.", "Run it again.", path=str(step.path)
        )
    if step.aside and step.current is not None:
        records.set_aside(key, step.path, step.current)
    if step.after is None:
        files.remove(step.path)
    else:
        whole = next((edit for edit in step.edits if isinstance(edit, Whole)), None)
        files.replace(step.path, step.after, files.OPEN if whole is None else whole.mode)


def show(step: Step) -> Iterator[str]:
    """The change as a unified diff, without line ends."""
    old, new = ("/dev/null" if content is None else str(step.path) for content in (step.current, step.after))
    yield from difflib.unified_diff(_lines(step.current), _lines(step.after), old, new, lineterm="")


def _lines(content: bytes | None) -> list[str]:
    text = (content or b"").decode("utf-8", "backslashreplace")
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else [*lines[:-1], f"{lines[-1]}\n\\ No newline at end of file"]


def check_writable(steps: Sequence[Step]) -> None:
    """Before the first file is touched: can all of them be?"""
    for step in steps:
        if step.verb == "keep":
            continue
        place = Path(os.path.realpath(step.path))
        above = next(one for one in place.parents if one.exists())
        if not os.access(above, os.W_OK | os.X_OK):
            hint = "Nothing was written; run it as the user whose configuration this is."
            raise Conflict("CONFIG_NOT_WRITABLE", f"{above} is not writable.", hint, path=str(above))


def unusable(path: Path, error: NotEditable) -> Conflict:
    hint = "Nothing was written there; mend the file, or edit it by hand as 'docs/guides/connect.md' shows."
    return Conflict("CONFIG_NOT_EDITABLE", f"{path} cannot be edited: {error}.", hint, path=str(path))
