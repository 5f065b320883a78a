"""Edit a JSON text in place: what is not ours stays as it is, with comments, order, spacing and line ends.

What is put in is plain JSON in the style of its surroundings.  Every edit is proven before it is handed out: the result
is read again and must say what the old text said, plus or minus ours.  What cannot be proven is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from wakeline.connect.jsonc import BOM, Document, Node, NotEditable, gap_before, parse

Keys = Sequence[str]


def put(text: str, keys: Keys, value: Any) -> str:
    """The member at this path has this value; objects on the way are made."""

    def ours(data: Any) -> None:
        _reach(data, keys[:-1])[keys[-1]] = _read(value)

    document = Document(text)
    node = _find(document, keys)
    if node is not None and document.read(node) == _read(value):
        return text
    return _proven(text, _put(text, keys, value), ours)


def append(text: str, keys: Keys, value: Any) -> str:
    """The list at this path holds this element.  A text in which it does stays as it is."""
    document = Document(text)
    node = _find(document, keys)
    if node is not None and (node.items is None or node.keyed):
        raise NotEditable(f"'{'.'.join(keys)}' in it is not a list")
    if node is not None and _read(value) in document.read(node):
        return text

    def ours(data: Any) -> None:
        _reach(data, keys[:-1]).setdefault(keys[-1], []).append(_read(value))

    return _proven(text, _put(text, keys, [value]) if node is None else _insert(document, node, "", value), ours)


def remove(text: str, keys: Keys) -> str:
    """The object at this path has no such member."""

    def ours(data: Any) -> None:
        _reach(data, keys[:-1]).pop(keys[-1], None)

    result = text
    while True:  # a key may stand twice: the last one counts, and the other must not come to life
        document = Document(result)
        owner = _find(document, keys[:-1])
        places = [place for place, item in enumerate(_items(owner)) if item.key == keys[-1]]
        if owner is None or not places:
            return _proven(text, result, ours) if result != text else text
        result = _cut(document, owner, places[-1])


def discard(text: str, keys: Keys, value: Any) -> str:
    """The list at this path does not hold this element."""
    document = Document(text)
    node = _find(document, keys)
    listed = [] if node is None or node.keyed else document.read(node)
    if node is None or not isinstance(listed, list) or _read(value) not in listed:
        return text

    def ours(data: Any) -> None:
        _reach(data, keys).remove(_read(value))

    return _proven(text, _cut(document, node, listed.index(_read(value))), ours)


def has(text: str, keys: Keys) -> bool:
    return _find(Document(text), keys) is not None


def is_empty(text: str, keys: Keys = ()) -> bool:
    """Is there an object or a list without anything in it, not even a comment?"""
    node = _find(Document(text), keys)
    return node is not None and node.items == [] and not text[node.start + 1 : node.end - 1].strip()


# -- places -----------------------------------------------------------------------------------------------------------


def _find(document: Document, keys: Keys) -> Node | None:
    node = document.root
    for key in keys:
        node = next((item.value for item in reversed(_items(node)) if item.key == key), None)
    return node


def _items(node: Node | None) -> list[Any]:
    return [] if node is None or node.items is None else node.items


def _put(text: str, keys: Keys, value: Any) -> str:
    document, newline = Document(text), _newline(text)
    if document.root is None:
        gap = "" if text.removeprefix(BOM).endswith("\n") or not text.strip(f"{BOM} \t") else newline
        return f"{text}{gap}{_render(_nest(keys, value), '  ', '', newline)}{newline}"
    node = document.root
    for depth, key in enumerate(keys):
        if not node.keyed:
            raise NotEditable(f"'{'.'.join(keys[:depth])}' in it is not an object" if depth else "it is not an object")
        item = next((one for one in reversed(_items(node)) if one.key == key), None)
        if item is None:
            return _insert(document, node, f"{_flat(key)}: ", _nest(keys[depth + 1 :], value))
        node = item.value
    written = _render(value, _unit(document), _indent(text, node.start), newline)
    return text[: node.start] + written + text[node.end :]


def _insert(document: Document, owner: Node, name: str, value: Any) -> str:
    """Behind the last item, and behind a comment that stands there."""
    items = _items(owner)
    if items and "\n" not in document.text[owner.start : owner.end]:
        return _insert_flat(document.text, items[-1], name, value)
    text, newline, closing = document.text, _newline(document.text), owner.end - 1
    outer = _indent(text, owner.start)
    inner = _indent(text, items[0].start) if items else outer + _unit(document)
    member = f"{newline}{inner}{name}{_render(value, _unit(document), inner, newline)}"
    if items and items[-1].comma is not None:
        member += ","
    elif items:
        end = items[-1].value.end
        text, closing = f"{text[:end]},{text[end:]}", closing + 1
    last = (items[-1].comma or items[-1].value.end) if items else owner.start
    _, gap = gap_before(text, last + 1, closing)
    place = closing - len(gap)
    return f"{text[:place]}{member}{gap if chr(10) in gap else newline + outer}{text[closing:]}"


def _insert_flat(text: str, last: Any, name: str, value: Any) -> str:
    if last.comma is None:
        return f"{text[: last.value.end]}, {name}{_flat(value)}{text[last.value.end :]}"
    return f"{text[: last.comma + 1]} {name}{_flat(value)},{text[last.comma + 1 :]}"


def _cut(document: Document, owner: Node, place: int) -> str:
    """Without one item and its comma, and without the line that it would leave empty."""
    text, items = document.text, _items(owner)
    item, before = items[place], items[place - 1] if place else None
    spans = [(_beginning(text, before.comma + 1 if before else owner.start + 1, item.start), item.value.end)]
    if item.comma is not None:
        spans.append((item.comma, item.comma + 1))
    elif before is not None:
        spans.append((before.comma, before.comma + 1))
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + text[end:]
    return text


def _beginning(text: str, start: int, end: int) -> int:
    """Where to cut: with the blanks before the item, but not with what ends a line comment."""
    comment, gap = gap_before(text, start, end)
    return end - len(gap) + (gap.index("\n") + 1 if comment.startswith("//") else 0)


# -- style ------------------------------------------------------------------------------------------------------------


def _flat(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _render(value: Any, unit: str, outer: str, newline: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + outer)


def _newline(text: str) -> str:
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def _indent(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place].removeprefix(BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(document: Document) -> str:
    """One step of indentation, as the file does it."""
    first = next(iter(_items(document.root)), None)
    found = "" if first is None else _indent(document.text, first.start)
    return found or "  "


def _nest(keys: Keys, value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


# -- proof ------------------------------------------------------------------------------------------------------------


def _proven(text: str, result: str, ours: Callable[[Any], None]) -> str:
    expected = parse(text)
    ours(expected)
    if parse(result) != expected:
        raise NotEditable("the edit cannot be proven to leave the rest of it alone")
    return result


def _read(value: Any) -> Any:
    return parse(_flat(value))


def _reach(data: Any, keys: Keys) -> Any:
    for key in keys:
        data = data.setdefault(key, {})
    return data
