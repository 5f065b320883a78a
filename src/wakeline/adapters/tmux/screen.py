"""What a pane shows, and what may be concluded from it.  Glances in, verdict out.

Screens change with every version of a program, so nothing here recognises programs.  Three signs must come together
before an input line is called empty: the cursor stands at its very beginning, nothing on it was typed (a placeholder
is faint), and it looks like an input line, with a prompt sign before it or a rule above and below.  Everything else,
and everything that looks like a question, like work or like a turn that was broken off, is a reason not to type.
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from typing import NamedTuple

import msgspec

from wakeline.core.session import Presence


class Verdict(StrEnum):
    EMPTY = "empty"
    DRAFT = "draft"
    BUSY = "busy"
    STOPPED = "stopped"  # empty, and the last that was said is that the human broke the turn off
    MODAL = "modal"
    UNKNOWN = "unknown"


PRESENCE = {
    Verdict.EMPTY: Presence.IDLE,
    Verdict.DRAFT: Presence.USER_TYPING,
    Verdict.BUSY: Presence.ACTIVE,
    Verdict.STOPPED: Presence.USER_TYPING,  # they took the floor, and have not spoken yet
    Verdict.MODAL: Presence.WAITING_ON_APPROVAL,
    Verdict.UNKNOWN: Presence.UNKNOWN,
}


class Glance(msgspec.Struct, frozen=True):
    """One look at a pane: its lines with their colours, where the cursor is, and what the program calls itself."""

    lines: tuple[str, ...]
    column: int
    row: int
    title: str


class Cell(NamedTuple):
    sign: str
    faint: bool


_ESCAPE = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x0e\x0f]")
_RULES = frozenset("─━═╌┄╭╮╰╯┌┐└┘│┃|▁▔▀▄▕▏ \xa0")
_BORDERS = frozenset("│┃|▌▎▏ \xa0")
_PROMPTS = frozenset("›❯>")  # noqa: RUF001 - these are the signs
_BLANKS = frozenset(" \xa0")
_ABOVE = 14  # how far above the cursor a question or a sign of work may stand
# A list to choose from, or the keys that answer it: a question is open, wherever the cursor is.
_MODAL = re.compile(
    r"\(y/n\)|\[y/n\]|\besc(?:ape)? (?:to )?(?:cancel|reject|deny|skip)"
    r"|\b(?:enter|return) (?:to )?(?:select|confirm|submit)"
    r"|\bpress enter\b|\ballow (?:once|always)|yes, and |yes, proceed|no, and tell"
    r"|^[\s│┃|]*[›❯>▶●○]\s*\d+[.)]\s",  # noqa: RUF001 - these are the signs
    re.IGNORECASE | re.MULTILINE,
)
# A model asks so too, so this counts only where there is no input line.
_ASKING = re.compile(r"do you want|would you like|do you trust|permission", re.IGNORECASE)
_BUSY = re.compile(
    r"\b(?:esc|escape|ctrl\+c) to (?:interrupt|stop|abort)|\besc interrupt\b|\bQUEUED\b|(?:^|[\s─])[\u2801-\u28ff] \w",
    re.MULTILINE,
)
# What harnesses write below a turn that their human broke off, and perhaps one line of status below that.
_STOPPED = re.compile(r"^[^\w]*(?:conversation |request |turn )?(?:interrupted|operation aborted)\b", re.IGNORECASE)
_STOPPING = re.compile(r"\binterrupted\b|\boperation aborted\b", re.IGNORECASE)
_BELOW = 2
_SPINNERS = re.compile(r"^[\u2801-\u28ff◐-◓◴-◷⏳]\s?")


def judge(first: Glance, second: Glance) -> Verdict:
    """Of two looks a moment apart: what moves is at work."""
    if _still(first) != _still(second):
        return Verdict.BUSY
    around = "\n".join(plain(line) for line in second.lines[max(0, second.row - _ABOVE) :])
    if _MODAL.search(around):
        return Verdict.MODAL
    if _BUSY.search(around) or _SPINNERS.match(second.title):
        return Verdict.BUSY
    verdict = _composer(second)
    if verdict is Verdict.EMPTY and _is_stopped(second):
        return Verdict.STOPPED
    return Verdict.MODAL if verdict is Verdict.UNKNOWN and _ASKING.search(around) else verdict


def _is_stopped(glance: Glance) -> bool:
    """Somebody's next words push that note up; until then it is among the last lines above the input line."""
    above = [plain(line) for line in glance.lines[: glance.row] if not all(sign in _RULES for sign in plain(line))]
    return any(_STOPPED.match(line) for line in above[-_BELOW:])


def is_alarming(text: str) -> bool:
    """Would this text, standing on the screen, itself be taken for a question, for work or for the human's Esc?"""
    return bool(_MODAL.search(text) or _BUSY.search(text) or _STOPPING.search(text))


def _still(glance: Glance) -> tuple[object, ...]:
    return (*map(plain, glance.lines), glance.column, glance.row, glance.title)


def _composer(glance: Glance) -> Verdict:
    cells = cells_of(_line(glance, glance.row))
    start = _start(cells)
    if start is None:
        return Verdict.DRAFT if _goes_on(glance) else _ruled(glance, cells)
    typed = [cell for cell in cells[start:] if cell.sign not in _RULES and not cell.faint]
    if typed or glance.column != start or not _is_framed(_line(glance, glance.row + 1)):
        return Verdict.DRAFT
    return Verdict.EMPTY


def _start(cells: list[Cell]) -> int | None:
    """The column behind the prompt sign and one blank, if the line begins with such a sign."""
    place = next((at for at, cell in enumerate(cells) if cell.sign not in _BORDERS), None)
    if place is None or cells[place].sign not in _PROMPTS:
        return None
    behind = cells[place + 1].sign if place + 1 < len(cells) else " "
    return place + 2 if behind in _BLANKS else None


def _ruled(glance: Glance, cells: list[Cell]) -> Verdict:
    """An input line without a prompt sign, between two rules."""
    if not (_is_rule(_line(glance, glance.row - 1)) and _is_rule(_line(glance, glance.row + 1))):
        return Verdict.UNKNOWN
    typed = any(cell.sign not in _BORDERS and not cell.faint for cell in cells)
    return Verdict.DRAFT if typed or glance.column > 2 else Verdict.EMPTY  # noqa: PLR2004 - a border and a blank


def _goes_on(glance: Glance) -> bool:
    """Is the cursor in a later line of what was typed behind a prompt sign, with a rule above and below it all?"""
    above = glance.row - 1
    while _is_indented(_line(glance, above)):
        above -= 1
    below = glance.row + 1
    while _is_indented(_line(glance, below)):
        below += 1
    begins = _start(cells_of(_line(glance, above))) is not None
    return begins and _is_rule(_line(glance, above - 1)) and _is_rule(_line(glance, below))


def _is_indented(line: str) -> bool:
    """As programs show the later lines of a text behind their prompt sign."""
    shown = plain(line)
    return shown[:2].isspace() and not all(sign in _RULES for sign in shown)


def _is_framed(line: str) -> bool:
    """Nothing that somebody typed goes on below."""
    return all(cell.faint or cell.sign in _RULES for cell in cells_of(line))


def _is_rule(line: str) -> bool:
    signs = [cell.sign for cell in cells_of(line)]
    return "─" in signs and all(sign in _RULES for sign in signs)


def _line(glance: Glance, row: int) -> str:
    return glance.lines[row] if 0 <= row < len(glance.lines) else ""


def shows(glance: Glance, mark: str) -> bool:
    """Is this word in or near the input line, however the program breaks its lines?"""
    near = "".join(plain(line) for line in glance.lines[max(0, glance.row - _ABOVE) : glance.row + 2])
    return mark in "".join(sign for sign in near if sign not in _RULES)


# -- signs ------------------------------------------------------------------------------------------------------------


def plain(line: str) -> str:
    return _ESCAPE.sub("", line).rstrip()


def cells_of(line: str) -> list[Cell]:
    """The signs of a line by column, each with whether it is faint."""
    cells: list[Cell] = []
    faint = grey = False
    place = 0
    for found in _ESCAPE.finditer(line):
        cells += _cells(line[place : found.start()], faint or grey)
        faint, grey = _style(found[1], faint, grey) if found[1] is not None else (faint, grey)
        place = found.end()
    return [*cells, *_cells(line[place:], faint or grey)]


def _cells(text: str, faint: bool) -> list[Cell]:  # noqa: FBT001 - a fact about the signs
    """A wide sign takes two columns."""
    cells = []
    for sign in text:
        wide = unicodedata.east_asian_width(sign) in ("W", "F")
        cells += [Cell(sign, faint)] * (2 if wide else 1)
    return cells


def _style(words: str, faint: bool, grey: bool) -> tuple[bool, bool]:  # noqa: FBT001 - as above
    codes = [int(code or 0) for code in re.split("[;:]", words)]
    while codes:
        code = codes.pop(0)
        if code == 0:
            faint = grey = False
        elif code in (1, 22):
            faint = False
        elif code == 2:  # noqa: PLR2004 - select graphic rendition: faint
            faint = True
        elif code in (38, 48):
            grey = _colour(codes) if code == 38 else (_colour(codes), grey)[1]  # noqa: PLR2004 - foreground
        elif 30 <= code <= 39 or 90 <= code <= 97:  # noqa: PLR2004 - foreground colours
            grey = code == 90  # noqa: PLR2004 - bright black
    return faint, grey


def _colour(codes: list[int]) -> bool:
    """Take an extended colour from the codes: is it a grey that is darker than text?"""
    kind = codes.pop(0) if codes else 0
    if kind == 5 and codes:  # noqa: PLR2004 - one of 256
        number = codes.pop(0)
        return number == 8 or 232 <= number <= 248  # noqa: PLR2004 - the greys
    if kind == 2 and len(codes) >= 3:  # noqa: PLR2004 - red, green, blue
        red, green, blue = (codes.pop(0) for _ in range(3))
        darkest, lightest = min(red, green, blue), max(red, green, blue)
        return lightest - darkest <= 24 and lightest <= 176  # noqa: PLR2004 - hardly a colour, and not bright
    return False
