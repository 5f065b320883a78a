"""The commands that an operator gave, by agent: read from a file, checked, with the recipes that we ship.

["@bob"]
argv = ["notify-bob", "{native_id}", "{text}"]

["@carol"]
recipe = "antigravity"
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from wakeline.wire.common import HANDLE_PATTERN

_log = logging.getLogger(__name__)

Word = Literal["accepted", "refused", "failed", "unknown", "absent"]
Handle = Annotated[str, Meta(pattern=HANDLE_PATTERN)]
ExitCode = Annotated[str, Meta(pattern=r"^[0-9]{1,3}$")]

# What exit codes mean unless they are said to mean something else: those of sysexits.h, and all others are failures.
EXITS: Mapping[str, Word] = {"0": "accepted", "69": "absent", "75": "refused"}


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One command.  Its words are given as they are, without a shell; names in braces are filled in."""

    argv: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)]
    timeout_seconds: Annotated[float, Meta(gt=0, le=60)] = 15
    every_seconds: Annotated[float, Meta(ge=0, le=3600)] = 0  # not sooner than this after the last one ended
    application: str | None = None  # what it drives: all sessions there share `every_seconds`; None: each has its own
    stdin: bool = False  # the text comes on the standard input, where no list of processes shows it
    answers: bool = False  # the first word that it prints says what came of it, not its exit code
    exits: dict[ExitCode, Word] = {}
    level: str = "unproven"


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands in the operator's file: a command, or the name of a recipe."""

    recipe: str | None = None
    argv: list[str] | None = None
    timeout_seconds: float | None = None
    every_seconds: float | None = None
    application: str | None = None
    stdin: bool | None = None
    answers: bool | None = None
    exits: dict[str, str] | None = None


@cache
def recipes() -> dict[str, Order]:
    text = (resources.files("wakeline.adapters.command") / "recipes.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Order])


def read_book(path: Path) -> dict[str, Order]:
    """The commands of each agent.  No file: none.  Raises OSError, or ValueError that says what is wrong."""
    return parse_book(path.read_text("utf-8")) if path.exists() else {}


def parse_book(text: str) -> dict[str, Order]:
    document = tomllib.loads(text)
    return {handle: _order(entry) for handle, entry in msgspec.convert(document, dict[Handle, Entry]).items()}


def _order(entry: Entry) -> Order:
    if (entry.recipe is None) == (entry.argv is None):
        raise ValueError("an agent has a recipe or a command of its own")
    if entry.recipe is not None and entry.recipe not in recipes():
        raise ValueError(f"there is no recipe {entry.recipe!r}; there are {', '.join(recipes())}")
    base = {} if entry.recipe is None else msgspec.structs.asdict(recipes()[entry.recipe])
    said = {name: value for name, value in msgspec.structs.asdict(entry).items() if value is not None}
    said.pop("recipe", None)
    return msgspec.convert({**base, **said}, Order)


class Book:
    """The file, read again when it has changed.  A mistake that comes into it later leaves what it said before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._look()
        self._orders = read_book(path)

    def get(self, handle: str, /) -> Order | None:
        seen = self._look()
        if seen != self._seen:
            self._seen = seen
            self._read_again()
        return self._orders.get(handle)

    def _read_again(self) -> None:
        try:
            self._orders = read_book(self._path)
        except (OSError, ValueError) as error:
            _log.warning("%s is left as it was read before: %s", self._path, error)

    def _look(self) -> tuple[int, ...] | None:
        try:
            state = self._path.stat()
        except OSError:
            return None
        return state.st_mtime_ns, state.st_size, state.st_ino
