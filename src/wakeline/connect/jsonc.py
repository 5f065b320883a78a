"""JSON with comments and trailing commas, taken apart so that each value's place in the text is known.

Some harnesses allow comments in their configuration and some do not; whoever reads the more generous form reads both.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

BOM = "\ufeff"
_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_PIECE = re.compile(r"[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_ATOM = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_DEEPEST = 200


class NotEditable(ValueError):
    """A file that cannot be read, or of which an edit cannot be proven; the message says why."""


class Node(msgspec.Struct):
    """A value and where it stands; `items` only of an object (`keyed`) or a list."""

    start: int
    end: int
    items: list[Item] | None = None
    keyed: bool = False


class Item(msgspec.Struct):
    """A member of an object, or an element of a list."""

    key: str | None
    start: int
    value: Node
    comma: int | None = None  # where the comma behind it stands


class Number(str):
    """A number as it was written: no rounding may make two different ones equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and str.__eq__(self, other)

    __hash__ = str.__hash__


class Document:
    """`root` is None where the text holds no value at all."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._place = len(BOM) if text.startswith(BOM) else 0
        self._skip()
        self.root = self._value(0) if self._place < len(text) else None
        self._skip()
        if self._place != len(text):
            self._refuse("there is more behind its end")

    def data(self) -> Any:
        return {} if self.root is None else self.read(self.root)

    def read(self, node: Node) -> Any:
        if node.items is None:
            return json.loads(self.text[node.start : node.end], parse_float=Number, parse_int=Number)
        if node.keyed:
            return {item.key: self.read(item.value) for item in node.items}
        return [self.read(item.value) for item in node.items]

    def _value(self, depth: int) -> Node:
        start, sign = self._place, self.text[self._place : self._place + 1]
        if depth > _DEEPEST:
            self._refuse("it is nested too deeply")
        if sign in ("{", "["):
            items = self._items("}" if sign == "{" else "]", depth)
            return Node(start, self._place, items, keyed=sign == "{")
        found = (_STRING if sign == '"' else _ATOM).match(self.text, start)
        if found is None:
            self._refuse("a value is expected")
        try:
            json.loads(found[0])
        except ValueError:
            self._refuse("a text is malformed")
        self._place = found.end()
        return Node(start, self._place)

    def _items(self, closing: str, depth: int) -> list[Item]:
        items: list[Item] = []
        self._place += 1
        self._skip()
        while not self._take(closing):
            if items and items[-1].comma is None:
                self._refuse("a comma or the end is expected")
            items.append(self._item(depth, keyed=closing == "}"))
            self._skip()
            if self._take(","):
                items[-1].comma = self._place - 1
            self._skip()
        return items

    def _item(self, depth: int, *, keyed: bool) -> Item:
        start, key = self._place, None
        if keyed:
            name = self._value(depth)
            if self.text[name.start] != '"':
                self._refuse("a key is expected")
            key = str(self.read(name))
            self._skip()
            if not self._take(":"):
                self._refuse("a colon is expected")
            self._skip()
        return Item(key, start, self._value(depth + 1))

    def _take(self, sign: str) -> bool:
        if not self.text.startswith(sign, self._place):
            return False
        self._place += 1
        return True

    def _skip(self) -> None:
        found = _TRIVIA.match(self.text, self._place)
        self._place = self._place if found is None else found.end()

    def _refuse(self, why: str) -> NoReturn:
        line = self.text.count("\n", 0, self._place) + 1
        raise NotEditable(f"it is not valid JSON: {why} in line {line}")


def parse(text: str) -> Any:
    """What the text says; numbers as they are written, so that two readings can be compared."""
    return Document(text).data()


def gap_before(text: str, start: int, end: int) -> tuple[str, str]:
    """Of the blanks and comments between two places: the last comment, and the blanks behind it."""
    comment = gap = ""
    for piece in _PIECE.findall(text, start, end):
        comment, gap = (piece, "") if piece.strip() else (comment, piece)
    return comment, gap
