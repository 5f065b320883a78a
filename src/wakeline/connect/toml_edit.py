"""Put a table into a TOML text, and take it out again, without touching anything else in it.

A table of ours is one block of lines at the end of the text: TOML lets tables stand in any order, so nothing before it
changes.  Every edit is proven by reading the result; where it cannot be (a list of servers that is one inline value,
say), it is refused with the lines to write by hand.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from wakeline.connect.jsonc import BOM, NotEditable, Number

_HEADER = re.compile(r"^[ \t]*\[")
_PART = r'(?:{bare}|"{bare}"|\'{bare}\')'
_LINE = re.compile(r"[^\n]*\n|[^\n]+")  # not `splitlines`, which also breaks at what TOML lets stand in a text
_BARE = re.compile(r"^[A-Za-z0-9_-]+$")


def parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix(BOM), parse_float=Number)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotEditable(f"it is not valid TOML: {error}") from None


def put(text: str, keys: Sequence[str], table: Mapping[str, Any]) -> str:
    """The table of this name holds exactly this."""
    expected = copy.deepcopy(parse(text))
    _reach(expected, keys[:-1])[keys[-1]] = dict(table)
    if parse(text) == expected:
        return text
    base, newline = remove(text, keys), "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    block = render(keys, table).replace("\n", newline)
    end = "" if base.endswith("\n") or not base.strip(f"{BOM} \t") else newline
    gap = newline if base.removeprefix(BOM).strip() else ""
    return _proven(f"{base}{end}{gap}{block}", [expected], f"write there:\n\n{render(keys, table)}")


def remove(text: str, keys: Sequence[str]) -> str:
    """There is no such table, nor any below it."""
    kept, pruned = parse(text), parse(text)
    if _reach(kept, keys[:-1]).pop(keys[-1], None) is None:
        return text
    _prune(pruned, keys)  # a table that only held ours is gone with it, unless it has a line of its own
    return _proven(_without(text, keys), (kept, pruned), f"remove the table [{'.'.join(keys)}] by hand")


def _prune(data: dict[str, Any], keys: Sequence[str]) -> None:
    if len(keys) > 1:
        _prune(data[keys[0]], keys[1:])
    if len(keys) == 1 or not data[keys[0]]:
        del data[keys[0]]


def render(keys: Sequence[str], table: Mapping[str, Any]) -> str:
    lines = [f"[{'.'.join(map(_key, keys))}]", *(f"{_key(name)} = {value(one)}" for name, one in table.items())]
    return "".join(f"{line}\n" for line in lines)


def _without(text: str, keys: Sequence[str]) -> str:
    """Our lines reach from a header of ours to the last line that says something before the next header."""
    ours = re.compile(rf"^[ \t]*\[[ \t]*{_path(keys)}[ \t]*[\].]")
    kept: list[str] = []
    held: list[str] = []  # blank lines and comments that may belong to what follows
    inside = False
    for line in _LINE.findall(text):
        if _HEADER.match(line.removeprefix(BOM)):
            was, inside = inside, ours.match(line.removeprefix(BOM)) is not None
            if inside and not was:
                _drop_gap(kept)
            kept += [] if inside else held
            held = []
        if not inside:
            kept.append(line)
        elif not line.strip() or line.lstrip().startswith("#"):
            held.append(line)
        else:
            held = []
    return "".join(kept + held)


def _drop_gap(lines: list[str]) -> None:
    if lines and not lines[-1].strip(f"{BOM} \t\r\n") and BOM not in lines[-1]:
        lines.pop()


def _path(keys: Sequence[str]) -> str:
    return r"[ \t]*\.[ \t]*".join(_PART.replace("{bare}", re.escape(key)) for key in keys)


def _key(name: str) -> str:
    return name if _BARE.match(name) else value(name)


def value(given: Any) -> str:
    """As it stands behind a key."""
    if isinstance(given, Mapping):
        inside = ", ".join(f"{_key(name)} = {value(one)}" for name, one in given.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(given, list):
        return f"[{', '.join(map(value, given))}]"
    # A basic string escapes as JSON does, but for DEL, which JSON lets stand.
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")


def _reach(data: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    for key in keys:
        inner = data.setdefault(key, {})
        if not isinstance(inner, dict):
            raise NotEditable(f"'{key}' in it is not a table")
        data = inner
    return data


def _proven(result: str, expected: Sequence[dict[str, Any]], instead: str) -> str:
    try:
        same = parse(result) in expected
    except NotEditable:
        same = False
    if not same:
        raise NotEditable(f"the edit cannot be proven to leave the rest of it alone; {instead}")
    return result
