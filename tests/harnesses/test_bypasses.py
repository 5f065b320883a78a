"""What the pinned harnesses themselves say of their options: whatever lets one go without asking is refused.

A new version may bring an option that nobody here has seen.  Then this test names it, and somebody decides.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests import harness_tools
from wakeline.core.launch import refuse_bypass
from wakeline.errors import Forbidden

HELPS = [
    ("claude-code", ()),
    ("codex", ()),
    ("codex", ("exec",)),
    ("codex", ("exec", "resume")),
    ("codex", ("resume",)),
    ("opencode", ()),
    ("opencode", ("run",)),
    ("pi", ()),
]
PROGRAMS = {"claude-code": "claude"}
_ENTRY = re.compile(r"^ {1,6}(-{1,2}[a-z].*)", re.IGNORECASE)
_OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")
_ABOUT_RIGHTS = re.compile(
    r"approv|trust|danger|permission|sandbox|bypass|allow tool|tool names to allow|confirm|\brules\b|yolo",
    re.IGNORECASE,
)

# What speaks of rights and takes none aside: the reason beside each.
HARMLESS = {
    "--add-dir": "names a folder",
    "--allowedTools": "names tools",
    "--allowed-tools": "names tools",
    "--ask-for-approval": "its value counts",
    "-a": "the short form of that, in Codex",
    "--sandbox": "its value counts",
    "-s": "the short form of that, in Codex",
    "--permission-mode": "its value counts",
    "--permission-prompts": "who answers; nobody means no",
    "--config": "its value counts",
    "-c": "the short form of that, in Codex",
    "--no-approve": "takes trust away",
    "-na": "takes trust away",
    "--print": "has no dialog to show, and so refuses",
    "-p": "has no dialog to show, and so refuses",
    "--restricted": "takes rights away",
    "--safe-mode": "leaves permissions as they are",
    "--search": "a tool without effects on the machine",
}


@pytest.mark.parametrize(("harness", "words"), HELPS, ids=lambda value: value if isinstance(value, str) else None)
def test_every_option_that_speaks_of_rights_is_refused_or_known_to_be_harmless(
    harness: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    program = PROGRAMS.get(harness, harness)
    spoken = {name for entry in _entries(harness, words, tmp_path) for name in _options(entry)}
    unknown = {name for name in spoken if not _is_refused([program, *words, name]) and not _is_harmless(program, name)}
    assert unknown == set()


@pytest.mark.parametrize(
    ("harness", "option", "harmless"),
    [
        (
            "claude-code",
            "--permission-mode",
            {"manual", "dontAsk", "plan"},
        ),  # asks, refuses what would ask, changes nothing
        ("codex", "--sandbox", {"read-only", "workspace-write"}),
    ],
)
def test_every_value_of_an_option_is_refused_or_known_to_be_harmless(
    harness: str, option: str, harmless: set[str], tmp_path: Path
) -> None:
    [entry] = [entry for entry in _entries(harness, (), tmp_path) if option in _options(entry)]
    [listed] = re.findall(r"(?:choices|possible values): ([^)\]]+)", entry)
    values = set(re.findall(r"[\w-]+", listed))
    assert harmless < values
    program = PROGRAMS.get(harness, harness)
    for words in ([option, "VALUE"], [f"{option}=VALUE"]):
        allowed = {one for one in values if not _is_refused([program, *(word.replace("VALUE", one) for word in words)])}
        assert allowed == harmless


def _entries(harness: str, words: tuple[str, ...], home: Path) -> list[str]:
    """Each option with its description, as one text."""
    done = subprocess.run(
        [*harness_tools.installed(harness).command, *words, "--help"],
        env=harness_tools.world(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    entries: list[str] = []
    for line in (done.stdout or done.stderr).splitlines():
        begins = _ENTRY.match(line)
        if begins:
            entries.append(begins.group(1))
        elif line and not line[0].isspace():
            entries.append("")
        elif entries:
            entries[-1] += f" {line.strip()}"
    assert len(entries) > 10, done
    return [entry for entry in entries if _ABOUT_RIGHTS.search(entry)]


def _options(entry: str) -> set[str]:
    """Its own names; what else the description mentions comes after two spaces, or after the first value."""
    names = re.split(r"\s{2,}|[<\[]", entry, maxsplit=1)[0]
    return set(_OPTION.findall(names))


def _is_refused(command: list[str]) -> bool:
    try:
        refuse_bypass(command)
    except Forbidden:
        return True
    return False


def _is_harmless(program: str, name: str) -> bool:
    return name in HARMLESS and not (program == "pi" and name == "-a")
