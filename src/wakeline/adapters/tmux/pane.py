"""One pane of one tmux server, by tmux's own commands."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from pathlib import Path

import msgspec

from wakeline.adapters.tmux.gift import OPTION
from wakeline.adapters.tmux.screen import Glance

COMMAND_SECONDS = 5.0
_GAP = "\x1f"  # no title holds it
_FACTS = (
    "pane_dead",
    "pane_in_mode",
    "pane_input_off",
    "pane_synchronized",
    "pane_pid",
    OPTION,
    "pane_current_command",
    "cursor_x",
    "cursor_y",
    "pane_title",
)


class PaneLost(Exception):
    """tmux, its server or the pane is not there, or does not answer."""


class Facts(msgspec.Struct, frozen=True):
    dead: bool
    in_mode: bool
    input_off: bool
    synchronised: bool
    root: int  # the process that the pane was opened with
    mark: str  # whom its user gave it to
    command: str
    column: int
    row: int
    title: str


class Pane:
    """Named by its server's socket and its id, which tmux never gives again while the server runs."""

    def __init__(self, socket: str | None, pane: str) -> None:
        """Without a socket: on the user's default server."""
        self.socket, self.pane = socket, pane

    @classmethod
    def named(cls, native_id: str | None) -> Pane | None:
        socket, _, pane = (native_id or "").rpartition(",")
        return cls(socket, pane) if socket and pane.startswith("%") and pane[1:].isdecimal() else None

    @property
    def native_id(self) -> str:
        return f"{self.socket},{self.pane}"

    async def facts(self) -> Facts:
        form = _GAP.join(f"#{{{name}}}" for name in _FACTS)
        # Two values that programs choose stand last, and the title behind all others.
        values = (
            (await self._run("display-message", "-p", "-t", self.pane, form)).rstrip("\n").split(_GAP, len(_FACTS) - 1)
        )
        try:
            dead, in_mode, off, synchronised, root, mark, command, column, row, title = values
            flags = (one == "1" for one in (dead, off, synchronised))
            is_dead, is_off, is_synchronised = flags
            return Facts(
                is_dead,
                in_mode not in ("", "0"),
                is_off,
                is_synchronised,
                int(root),
                mark,
                command,
                int(column),
                int(row),
                title,
            )
        except ValueError:
            raise PaneLost(f"there is no pane {self.pane}") from None

    async def where(self) -> tuple[str, str]:
        """The server's socket, and the directory that the pane's program works in."""
        form = f"#{{socket_path}}{_GAP}#{{pane_current_path}}"
        socket, _, folder = (
            (await self._run("display-message", "-p", "-t", self.pane, form)).rstrip("\n").partition(_GAP)
        )
        return socket, folder

    async def glance(self) -> Glance:
        lines = await self._run("capture-pane", "-p", "-e", "-t", self.pane)
        facts = await self.facts()
        return Glance(tuple(lines.split("\n")), facts.column, facts.row, facts.title)

    async def paste(self, text: str, name: str) -> None:
        """As a terminal pastes, so that a program that asked for it can tell it from typing."""
        await self._run("load-buffer", "-b", name, "-", stdin=text.encode())
        await self._run("paste-buffer", "-p", "-r", "-d", "-b", name, "-t", self.pane)

    async def enter(self) -> None:
        await self._run("send-keys", "-t", self.pane, "Enter")

    async def give(self, mark: str) -> None:
        await self._run("set-option", "-p", "-t", self.pane, OPTION, mark)

    async def take_back(self) -> None:
        await self._run("set-option", "-p", "-u", "-t", self.pane, OPTION)

    async def _run(self, *words: str, stdin: bytes | None = None) -> str:
        if self.socket is not None and not is_own(Path(self.socket)):
            raise PaneLost(f"{self.socket} is not a socket of a tmux server of this user")
        try:
            process = await asyncio.create_subprocess_exec(
                "tmux",
                *(("-S", self.socket) if self.socket else ()),
                *words,
                # Not a pipe that nobody writes to: a command that is over by then has closed it, and uvloop raises.
                stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise PaneLost(f"tmux cannot be run: {error}") from None
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                out, problem = await process.communicate(stdin)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise PaneLost("tmux does not answer") from None
        if process.returncode:
            raise PaneLost(problem.decode("utf-8", "replace").strip() or f"tmux {words[0]} failed")
        return out.decode("utf-8", "replace")


def is_own(socket: Path) -> bool:
    """Is a server of our own user behind it?  Another's would answer what it likes, and is sent our environment.

    Nobody else can put another socket into its place, either: its folder is ours, or the system's and sticky.
    """
    try:
        own, folder = socket.lstat(), socket.parent.resolve(strict=True).stat()
    except OSError:
        return False
    shared = folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not folder.st_mode & stat.S_ISVTX
    return (
        stat.S_ISSOCK(own.st_mode) and own.st_uid == os.geteuid() and folder.st_uid in (0, os.geteuid()) and not shared
    )
