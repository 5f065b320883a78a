"""What every harness is told, whatever its configuration looks like: how to start us, where we are, who it is to us."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Protocol

import msgspec

from wakeline.connect.change import Edit
from wakeline.endpoint import Endpoint, find_seats

NAME = "wakeline"


class Wire(msgspec.Struct, frozen=True):
    command: tuple[str, ...]  # how to start our own command; what it shall do comes behind it
    environ: dict[str, str]
    allow: bool = True  # our tools need no approval


class Place(msgspec.Struct, frozen=True):
    """Whose configuration: a user's, or a project's."""

    environ: Mapping[str, str]
    project: Path | None = None

    @property
    def home(self) -> Path:
        return Path(self.environ.get("HOME") or "~").expanduser()

    def directory(self, variable: str, default: str) -> Path:
        """A harness's own directory: where its variable says, or below the home directory."""
        named = self.environ.get(variable)
        return Path(os.path.abspath(Path(named).expanduser())) if named else self.home / default  # noqa: PTH100 - links stay


class Launch(msgspec.Struct, frozen=True):
    """How to start a harness ready-wired: its program, our arguments, our environment, and files of our own."""

    program: str
    arguments: tuple[str, ...] = ()
    environ: dict[str, str] = {}
    files: list[Edit] = []


class Wiring(Protocol):
    @property
    def program(self) -> str: ...

    def root(self, place: Place) -> Path: ...

    def edits(self, place: Place, wire: Wire) -> list[Edit]: ...

    def notes(self, place: Place) -> tuple[str, ...]: ...

    def launch(self, place: Place, wire: Wire, own: Path) -> Launch:
        """`own` is a directory of ours, for what must be a file."""
        ...


def wire(endpoint: Endpoint, token_file: Path, seats: str, *, allow: bool) -> Wire:
    """Companions find a socket that had to go elsewhere, because the data directory's path is too long, through that
    directory: it may be in another place after the next start.
    """
    data = endpoint.data or ""
    environ = {"WAKELINE_TOKEN_FILE": str(token_file), "WAKELINE_DATA": data}
    if endpoint.url:
        environ["WAKELINE_URL"] = endpoint.url
    if Path(seats).parent == Path(data) or not _is_recorded(data, seats):
        environ["WAKELINE_SEATS"] = seats
    return Wire(own_command(), environ, allow)


def _is_recorded(data: str, seats: str) -> bool:
    return find_seats(data, {}) == seats


def own_command() -> tuple[str, ...]:
    """The command of this very installation, whatever PATH the harness has."""
    script = Path(sys.executable).with_name(NAME)
    return (str(script),) if script.exists() else (sys.executable, "-m", NAME)


def shipped(harness: str) -> dict[str, str]:
    """The files that we ship for a harness, by their place below its folder."""
    folder = resources.files(NAME).joinpath("harnesses", harness)
    return dict(_walk(folder, "")) if folder.is_dir() else {}


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            found += [] if entry.name == "__pycache__" else _walk(entry, f"{prefix}{entry.name}/")
        elif not entry.name.endswith((".py", ".pyc")):
            found.append((f"{prefix}{entry.name}", entry.read_text(encoding="utf-8")))
    return found


def beside(wire: Wire) -> str:
    """What a companion reads from the file beside it, where the harness gives it no environment."""
    told = {name.removeprefix("WAKELINE_").lower(): value for name, value in wire.environ.items()}
    return f"{json.dumps({**told, 'command': list(wire.command)}, indent=2, ensure_ascii=False)}\n"
