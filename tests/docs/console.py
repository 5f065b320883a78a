"""Run a console session as a page prints it, and compare what happens with what is printed.

A line that begins with `$ ` is a command, and `> ` continues it; the lines below are its output.  What differs from run
to run (ids, tokens, times, ports) may differ.  An id must be the same one wherever the page prints the same, and a
command that names it is run with the id of this run: pages show what people really see and type.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

END = "\x1e"

# What must be the same wherever the page shows the same, and what is anybody's guess.
_NAMED = r"\b[0-9A-HJKMNP-TV-Z]{26}\b|\b[0-9a-f]{8}(?=-\d+)"
_VOLATILE = (
    r"\beyJ[\w.-]*…?|\b\d{4}-\d\d-\d\d[T ][\d:.]+Z?|\bnow\b|\b\d+ (?:s|min) ago\b|http://127\.0\.0\.1:\d+"
    r"|\b[0-9a-f]{12}-\d+\b|\b\d{16}\b|\b[0-9a-f]{8}\b|\b\d+\.\d+\.\d+\b|[\d,]+ bytes"
)
_parts = re.compile(f"({_NAMED})|({_VOLATILE})")


class Step(NamedTuple):
    command: str
    expected: str


def steps(text: str) -> Iterator[Step]:
    command, output = "", list[str]()
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield Step(command, "\n".join(output))
            command, output = line[2:], []
        elif line.startswith("> ") and not output:
            command += f"\n{line[2:]}"
        else:
            output.append(line)
    yield Step(command, "\n".join(output))


class Console:
    """A shell that somebody types into, line by line."""

    def __init__(self, environ: Mapping[str, str], folder: Path, preamble: str = "") -> None:
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._known: dict[str, str] = {}
        self.type(preamble)

    def type(self, command: str) -> str:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{command}\necho {END}\n")
        self._shell.stdin.flush()
        lines = []
        for line in self._shell.stdout:
            if line.rstrip("\n").endswith(END):
                lines.append(line.rstrip("\n").removesuffix(END))
                break
            lines.append(line)
        return "".join(lines)

    def play(self, step: Step) -> None:
        command = step.command
        for printed, real in self._known.items():
            command = command.replace(printed, real)
        output = self.type(command)
        problem = self._compare(step.expected, output)
        assert problem is None, f"$ {command}\n{output}\n--- but the page prints:\n{step.expected}\n--- {problem}"

    def _compare(self, expected: str, output: str) -> str | None:
        """What is wrong, if anything.  Learns what the page's names stand for."""
        wanted, found = _parts.split(_plain(expected)), _parts.split(_plain(output))
        if wanted[::3] != found[::3]:
            return "the words differ"
        for printed, real in zip(wanted[1::3], found[1::3], strict=True):
            if (printed is None) != (real is None) or self._known.setdefault(printed or "", real or "") != (real or ""):
                return f"{printed} should be {self._known.get(printed or '')}, not {real}"
        return None

    def close(self) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write("kill $(jobs -p) 2>/dev/null; exit\n")
        self._shell.stdin.close()
        self._shell.wait(30)
        assert self._shell.stdout is not None
        self._shell.stdout.close()


def _plain(text: str) -> str:
    return re.sub(r"[ \t]+", " ", re.sub(r"[ \t]+$", "", text.strip(), flags=re.MULTILINE))
