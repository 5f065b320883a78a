"""What is written where: the edits of one connection, and the files that they make.

An edit knows how to put its own into a text and how to take it out again, so that a file that somebody changed since
can still be cleaned of ours alone.  Edits are kept in the record of a connection; a later version must understand them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from wakeline.connect import json_edit, toml_edit
from wakeline.connect.jsonc import NotEditable


class Member(msgspec.Struct, frozen=True, tag="member", tag_field="edit"):
    """One member of an object in a JSON file."""

    path: str
    keys: tuple[str, ...]
    value: Any

    def put(self, text: str) -> str:
        return json_edit.put(text, self.keys, self.value)

    def take(self, text: str, before: str) -> str:
        return _tidy(json_edit.remove(text, self.keys), before, self.keys)


class Element(msgspec.Struct, frozen=True, tag="element", tag_field="edit"):
    """One element of a list in a JSON file."""

    path: str
    keys: tuple[str, ...]
    value: Any

    def put(self, text: str) -> str:
        return json_edit.append(text, self.keys, self.value)

    def take(self, text: str, before: str) -> str:
        if json_edit.append(before, self.keys, self.value) == before:
            return text  # it was there before us
        return _tidy(json_edit.discard(text, self.keys, self.value), before, (*self.keys, ""))


class Table(msgspec.Struct, frozen=True, tag="table", tag_field="edit"):
    """One table in a TOML file."""

    path: str
    keys: tuple[str, ...]
    value: dict[str, Any]

    def put(self, text: str) -> str:
        return toml_edit.put(text, self.keys, self.value)

    def take(self, text: str, before: str) -> str:
        return toml_edit.remove(text, self.keys)


class Whole(msgspec.Struct, frozen=True, tag="whole", tag_field="edit"):
    """A file that is ours from end to end."""

    path: str
    text: str
    mode: int = 0o644

    def put(self, text: str) -> str:
        return self.text

    def take(self, text: str, before: str) -> str:
        return before


Edit = Member | Element | Table | Whole


def _tidy(text: str, before: str, keys: tuple[str, ...]) -> str:
    """Without the containers that we made and that are empty now."""
    for depth in range(len(keys) - 1, 0, -1):
        if not json_edit.is_empty(text, keys[:depth]) or json_edit.has(before, keys[:depth]):
            return text
        text = json_edit.remove(text, keys[:depth])
    return text


def put_all(edits: list[Edit], content: bytes | None) -> bytes:
    text = _decode(content)
    for edit in edits:
        text = edit.put(text)
    return text.encode()


def take_all(edits: list[Edit], content: bytes, before: bytes | None) -> bytes | None:
    """The file without ours; None if nothing is left of a file that was not there."""
    text, original = _decode(content), _decode(before)
    for edit in reversed(edits):
        text = edit.take(text, original)
    if before is None and (not text.strip() or _is_nothing(text)):
        return None
    return text.encode()


def _is_nothing(text: str) -> bool:
    try:
        return json_edit.is_empty(text)
    except NotEditable:
        return False  # another format


def _decode(content: bytes | None) -> str:
    try:
        return (content or b"").decode()
    except UnicodeDecodeError:
        raise NotEditable("it is not UTF-8") from None


def by_file(edits: list[Edit]) -> dict[Path, list[Edit]]:
    """The edits of each file, in their order."""
    files: dict[Path, list[Edit]] = {}
    for edit in edits:
        files.setdefault(Path(edit.path), []).append(edit)
    return files
