"""An answer in the format that was asked for: for people, as JSON, as JSON lines or as TOON."""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FORMATS = ("human", "json", "jsonl", "toon")

# JSON escapes C0 itself.  These pass through it unharmed, and some terminals obey them.
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))}


def show(form: str, answer: Any, human: Callable[[Any], str], items: str | None = None) -> None:
    """Print an answer.  `items` names the list in it that JSON lines show one by one."""
    if form == "human":
        write(human(answer))
    elif form == "json":
        write(encode(answer, indent=2))
    elif form == "toon":
        write(to_toon(answer))
    else:
        # A list that is not there is one that this caller is not shown, such as the members of a role's thread.
        for item in [answer] if items is None else answer.get(items, []):
            write(encode(item))


def write(text: str) -> None:
    if text:
        sys.stdout.write(f"{text}\n")


def encode(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent).translate(_ESCAPES)


def to_toon(value: Any) -> str:
    import toon_format

    from wakeline.faces.cli.text import safe

    return safe(toon_format.dumps(value))
