"""Text for people: safe to print, cut to the width of the terminal, with times that read well.

What peers wrote may hold anything, also sequences that move the cursor or recolour the screen.  Everything that people
see goes through `safe` or `one_line`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Not "printable" by the book, but part of ordinary text: joiners inside emoji and the wider spaces.
_KEPT = "\u200c\u200d\u00a0\u202f\u3000"
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_MONTH = 30 * 86_400


def safe(text: str) -> str:
    """The text with everything escaped that could act on a terminal; line breaks stay."""
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    return "".join(
        sign if sign == "\n" or sign in _KEPT or sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


def one_line(text: str) -> str:
    return safe(" ".join(text.split()))


def indented(text: str, by: str = "  ") -> str:
    """Every line set off, so that no line of a body can look like one of ours."""
    return "\n".join(f"{by}{line}".rstrip() for line in safe(text).split("\n"))


def paint(text: str, style: str) -> str:
    return f"\033[{_STYLES[style]}m{text}\033[0m" if _colourful() else text


def _colourful() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """None where nobody looks: what goes into a pipe or a file is not cut."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None


def width(text: str) -> int:
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def clip(text: str, room: int) -> str:
    if width(text) <= room:
        return text
    while text and width(text) >= room:
        text = text[:-1]
    return f"{text}…"


def pad(text: str, room: int) -> str:
    return text + " " * (room - width(text))


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns with titles; one that is empty is left out, and the last gives way when the terminal is too narrow."""
    cells = [[one_line("" if cell is None else str(cell)) for cell in row] for row in rows]
    used = [place for place in range(len(titles)) if not cells or any(row[place] for row in cells)] or [0]
    titles, cells = [titles[place] for place in used], [[row[place] for place in used] for row in cells]
    widths = [max(width(cell) for cell in column) for column in zip(titles, *cells, strict=True)]
    limit = terminal_width()
    if limit is not None:
        widths[-1] = max(min(widths[-1], limit - sum(widths[:-1]) - 2 * (len(widths) - 1)), len(titles[-1]), 8)
    lines = [[clip(cell, room) for cell, room in zip(row, widths, strict=True)] for row in cells]
    head = "  ".join(pad(title, room) for title, room in zip(titles, widths, strict=True)).rstrip()
    body = ["  ".join(pad(cell, room) for cell, room in zip(row, widths, strict=True)).rstrip() for row in lines]
    return "\n".join((paint(head, "bold"), *body))


def block(fields: Mapping[str, object]) -> str:
    """Names and values, one pair to a line; what is None is left out."""
    shown = {name: value for name, value in fields.items() if value is not None}
    room = max(map(len, shown), default=0)
    return "\n".join(f"{paint(pad(name, room), 'dim')}  {one_line(str(value))}" for name, value in shown.items())


def now() -> float:
    import time

    return time.time()  # noqa: TID251 - a command is its own edge of the world


def ago(moment: str | None) -> str:
    """An instant of the wire as people say it: '3 min ago', 'in 2 h', and a date when it is far away."""
    if moment is None:
        return ""
    from datetime import datetime

    then = datetime.fromisoformat(moment)
    seconds = now() - then.timestamp()
    if abs(seconds) < 1:
        return "now"
    if abs(seconds) > _MONTH:
        return f"{then:%Y-%m-%d}"
    span = next(f"{int(abs(seconds) // size)} {unit}" for size, unit in _SPANS if abs(seconds) >= size)
    return f"{span} ago" if seconds > 0 else f"in {span}"


def clock(moment: str) -> str:
    """The local time of an instant, to the second."""
    from datetime import datetime

    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
