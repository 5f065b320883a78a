"""A terminal for tests: run a program in it, type, press keys, read the screen.

It is a tmux server of its own, on a socket of its own and without anybody's configuration, so it neither sees nor
touches the terminals of whoever runs the tests.  The program gets the environment that it is given and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

COLUMNS, ROWS = 160, 50
WAIT_SECONDS = 30.0
LOOK_SECONDS = 0.05
AGAIN_SECONDS = 0.4
COMMAND_SECONDS = 20


class TerminalTimeout(AssertionError):
    """The screen did not come to show what was waited for."""


class Terminal:
    def __init__(
        self, command: Sequence[str], *, cwd: Path, environ: Mapping[str, str], hide_tmux: bool = True
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="wakeline"))  # a short path: sockets cannot have long ones
        self._cwd = cwd
        self._environ = {"TERM": "xterm-256color", "LANG": "C.UTF-8", **environ}
        # Some programs behave differently when they know of tmux, and people mostly do not run them in it.
        hidden = [
            "env",
            "-u",
            "TMUX",
            "-u",
            "TMUX_PANE",
            "-u",
            "TERM_PROGRAM",
            "-u",
            "TERM_PROGRAM_VERSION",
            "TERM=xterm-256color",
            "COLORTERM=truecolor",
        ]
        self._command = [*hidden, *command] if hide_tmux else [*command]
        self.pid = 0

    @property
    def socket(self) -> Path:
        return self._folder / "tmux"

    def start(self) -> Self:
        size = ("-x", str(COLUMNS), "-y", str(ROWS))
        options = (
            "set",
            "-g",
            "remain-on-exit",
            "on",
            ";",
            "set",
            "-g",
            "status",
            "off",
            ";",
            "set",
            "-g",
            "escape-time",
            "0",
        )
        self._tmux(*options, ";", "new-session", "-d", *size, "-c", str(self._cwd), "--", *self._command)
        self.pid = int(self._tmux("display-message", "-p", "#{pane_pid}"))
        return self

    def stop(self) -> None:
        """End the program and what it started in this terminal."""
        for pid in (*_descendants(self.pid), self.pid):
            end_process(pid)
        if self.socket.exists():
            self._tmux("kill-server", check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- hands --------------------------------------------------------------------------------------------------------

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: Enter, Escape, Up, C-c."""
        self._tmux("send-keys", *keys)

    def press_until(self, key: str, wanted: Callable[[], bool], timeout: float = WAIT_SECONDS) -> None:
        """Press a key as a human does who sees no effect: again.  Programs ignore what comes right after a change."""
        until = time.monotonic() + timeout
        while not wanted():
            if time.monotonic() > until:
                raise TerminalTimeout(f"pressing {key} has no effect:\n{self.screen}")
            self.press(key)
            time.sleep(AGAIN_SECONDS)

    def submit(self, text: str) -> None:
        """Type a line, see that it stands there, and press Enter: a program may take a fast Enter for pasted text."""
        self.type(text)
        self.wait(text[-40:])
        self.press("Enter")

    # -- eyes ---------------------------------------------------------------------------------------------------------

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-J")

    @property
    def alive(self) -> bool:
        return self._tmux("display-message", "-p", "#{pane_dead}") == "0"

    def wait(self, text: str, timeout: float = WAIT_SECONDS) -> str:
        return self.wait_until(lambda screen: text in screen, timeout, f"the screen does not show {text!r}")

    def wait_gone(self, text: str, timeout: float = WAIT_SECONDS) -> str:
        return self.wait_until(lambda screen: text not in screen, timeout, f"the screen still shows {text!r}")

    def wait_until(
        self,
        wanted: Callable[[str], bool],
        timeout: float = WAIT_SECONDS,
        complaint: str = "the screen is not as wanted",
    ) -> str:
        until = time.monotonic() + timeout
        while not wanted(screen := self.screen):
            if time.monotonic() > until or not self.alive:
                if wanted(screen := self.screen):  # it may be the end that was waited for
                    return screen
                raise TerminalTimeout(f"{complaint}:\n{screen}")
            time.sleep(LOOK_SECONDS)
        return screen

    def _tmux(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self.socket), "-f", "/dev/null", *words],
            env={"PATH": os.environ.get("PATH", os.defpath), **self._environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        if check and done.returncode:
            raise RuntimeError(f"tmux {words[0]}: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")


def _descendants(pid: int) -> list[int]:
    """The children of a process, theirs first."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = [(int(child), int(parent)) for child, parent in (line.split() for line in listed.splitlines())]

    def below(parent: int) -> list[int]:
        return [found for child, of in parents if of == parent for found in (*below(child), child)]

    return below(pid)


def end_process(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
        os.kill(pid, signal.SIGKILL)
