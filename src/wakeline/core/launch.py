"""What may be started for an agent, and with which words.

A command is a list that never reaches a shell.  Nothing that sets a harness's permissions aside is started, whoever
asks for it: a woken agent has the rights that its human gave it, and no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wakeline.core.doorbell import tame
from wakeline.errors import Forbidden

# In any argument, whatever its case; each of them sets the permissions of some harness aside.
BYPASSES = (
    "--dangerously",
    "--allow-dangerously",
    "bypasspermissions",
    "--yolo",
    "--approval-mode=yolo",
    "--full-auto",
    "danger-full-access",
    "--no-sandbox",
    "--allow-all-tools",
    "--trust-all-tools",
    "approval_policy=never",
    'approval_policy="never"',
)
PROMPT, SESSION = "{prompt}", "{session}"


@dataclass(frozen=True, slots=True)
class Program:
    command: list[str]
    environ: Mapping[str, str] = field(default_factory=dict)  # what it needs beside what it inherits


def refuse_bypass(command: Sequence[str]) -> None:
    for word in command:
        found = next((bypass for bypass in BYPASSES if bypass in word.lower()), None)
        if found is not None:
            raise Forbidden(
                "PERMISSION_BYPASS_REFUSED",
                f"{tame(word)!r} would set the harness's permissions aside.",
                rule="permission_bypass",
            )


def fill(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """An operator's command with what it asks for; each word stays one word, whatever is put into it."""
    filled = []
    for word in command:
        for name, value in values.items():
            if word == f"{{{name}}}":
                word = value  # noqa: PLW2901 - the word as a whole, so that no text can hold another's name
                break
        filled.append(word)
    return filled
