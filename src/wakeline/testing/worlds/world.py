"""What every world has, and the session of a harness that runs in one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from wakeline.testing.model import ModelServer, Request
from wakeline.testing.terminal import LOOK_SECONDS, Terminal, end_process

START_SECONDS = 180.0
ANSWER_SECONDS = 60.0
EVICT_SECONDS = 10.0
MODEL = "stand-in"


class HarnessSession:
    """One running harness, as its human sees it."""

    def __init__(self, world: World, terminal: Terminal) -> None:
        self.world = world
        self.terminal = terminal
        self._native_id: str | None = None

    @property
    def native_id(self) -> str:
        """The harness's own id of the session.  Some harnesses have none before the first prompt."""
        if self._native_id is None:
            self._native_id = self.world.native_id(self.terminal)
        if self._native_id is None:
            raise LookupError(f"{self.world.harness} names a session only when it was spoken to: prompt it first")
        return self._native_id

    def prompt(self, text: str) -> Request:
        """A human types a prompt and presses Enter; the request that reached the model."""
        before = len(self.world.model.requests)
        self.terminal.submit(text)
        request = self.world.model.wait(text, after=before, timeout=ANSWER_SECONDS)
        self._native_id = self._native_id or request.session
        return request

    def stop(self) -> None:
        """Kill it, as if the terminal and the machine's power had gone for it alone."""
        self.terminal.stop()


class World(ABC):
    harness: ClassVar[str]
    ready: ClassVar[str]  # what the screen shows when a human may type
    again: ClassVar[str] = ""  # what it shows then in a session that was resumed, if that is something else
    question: ClassVar[str] = ""  # what it shows when the harness asks its human for a permission, if it ever does
    approves: ClassVar[str] = ""  # the key that says yes to that
    resumes: ClassVar[tuple[str, ...]]  # the words before a session's id that open it again

    def __init__(self, folder: Path, model: ModelServer, command: Sequence[str], *, asks: bool = False) -> None:
        """`asks`: the harness asks its human before it runs a command that changes something, if it can."""
        self.model = model
        self.command = tuple(command)
        self.asks = asks
        self.home = folder / "home"
        self.project = folder / "project"
        self.runtime = Path(tempfile.mkdtemp(prefix="wakeline"))  # for sockets, whose paths must be short
        self.extra: dict[str, str] = {}  # more variables, for what is opened from now on
        self._opened: list[Terminal] = []
        for made in (self.home, self.project):
            made.mkdir(parents=True, exist_ok=True)
        self.configure()

    @abstractmethod
    def configure(self) -> None:
        """Write the harness's configuration."""

    @abstractmethod
    def variables(self) -> dict[str, str]:
        """What the harness needs beside home and path."""

    def native_id(self, terminal: Terminal) -> str | None:
        """The id of the session in this terminal, if there is a way to know it before the first prompt."""
        return None

    def options(self) -> tuple[str, ...]:
        return ()

    def settle(self, terminal: Terminal) -> None:  # noqa: B027 - most ask nothing
        """Answer, as its human would, what the harness asks when it starts."""

    @property
    def environ(self) -> dict[str, str]:
        """A whole environment.  Commands of the Python that runs us are on its PATH, so that `wakeline` is."""
        return {
            "HOME": str(self.home),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin")),
            "SHELL": "/bin/sh",
            "XDG_RUNTIME_DIR": str(self.runtime),
            "TMPDIR": str(self.runtime),
            **self.variables(),
            **self.extra,
        }

    def open(self, *words: str) -> HarnessSession:
        """Start the harness in a terminal, with more words on its command line, and wait until it is idle."""
        command = (*self.command, *self.options(), *words)
        terminal = Terminal(command, cwd=self.project, environ=self.environ).start()
        self._opened.append(terminal)
        resumed = self.again and self.resumes[0] in words
        terminal.wait(self.again if resumed else self.ready, START_SECONDS)
        self.settle(terminal)
        return HarnessSession(self, terminal)

    def fell(self, session: HarnessSession) -> None:
        """Kill all that runs this session, as if the machine's power had gone for it alone."""
        session.stop()

    def run(self, *words: str, timeout: float = START_SECONDS) -> str:
        """Run the harness's command with these words to its end, and answer what it printed."""
        done = subprocess.run(
            [*self.command, *words],
            cwd=self.project,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        if done.returncode:
            raise RuntimeError(f"{self.harness} {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def close(self) -> None:
        for terminal in self._opened:
            terminal.stop()
        self._evict()
        shutil.rmtree(self.runtime, ignore_errors=True)

    def _evict(self) -> None:
        """End whoever still lives here, and see them gone: what is killed takes a moment to die."""
        until = time.monotonic() + EVICT_SECONDS
        while (left := residents(self.home)) and time.monotonic() < until:
            for pid in left:
                end_process(pid)
            time.sleep(LOOK_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def residents(home: Path) -> list[int]:
    """The processes that have this home: harnesses start servers that outlive them."""
    wanted = f"HOME={home}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            lives_here = wanted in place.read_bytes().split(b"\0")
        except OSError:
            continue  # another user's, or it has just ended
        if lives_here:
            found.append(int(place.parent.name))
    return found
