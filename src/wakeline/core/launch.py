"""What may be started for an agent, and with which words.

A command is a list that never reaches a shell.  Nothing that sets a harness's permissions aside is started, whoever
asks for it: a woken agent has the rights that its human gave it, and no more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from wakeline.core.doorbell import tame
from wakeline.errors import Forbidden

# Whatever their case, with "=", ":" and quotes read as spaces; each of them sets the permissions of some harness aside,
# or lets it approve or trust something without asking.  To name single tools or commands that are allowed is no bypass.
BYPASSES = (
    "--dangerously",
    "--allow-dangerously",
    "dangerously_skip_permissions",
    " bypasspermissions",
    "--yolo",
    "--approval-mode yolo",
    "--full-auto",
    "danger-full-access",
    "--no-sandbox",
    "--allow-all-tools",
    "--allow-all ",
    "--trust-all-tools",
    "--yes-always",
    "--approve ",
    # Claude Code: modes that approve by themselves, in options, settings and agents
    " acceptedits",
    "permission-mode auto ",
    "permissionmode auto ",
    "defaultmode auto ",
    "--enable-auto-mode",
    "claude_code_enable_auto_mode",
    "claude_code_sandboxed",
    "enableallprojectmcpservers true",
    # Codex: `-c` takes any key of its configuration
    "approval_policy never",
    "--ask-for-approval never",
    " -a never ",
    " -anever ",
    "--approve-for-me",
    "--not-so-yolo",
    "approvals_reviewer auto_review",
    "approvals_reviewer guardian_subagent",
    "--ignore-rules",
    "bypass_hook_trust true",
    "trust_level trusted",
    # opencode: OPENCODE_PERMISSION and OPENCODE_CONFIG_CONTENT hold JSON
    "permission allow ",
    "{ * allow ",
    ", * allow ",
)
# What means something else to other programs counts only beside the name of this one.
_NAMED = (
    (re.compile(r"(?<![\w-])pi(-coding-agent)?(?![\w-])"), (" -a ",)),
    (re.compile(r"(?<![\w-])opencode(-ai)?(?![\w-])"), (" --auto ",)),
)
_SEPARATORS = re.compile(r"[\s=:\"']+")
PROMPT, SESSION = "{prompt}", "{session}"


@dataclass(frozen=True, slots=True)
class Program:
    command: list[str]
    environ: Mapping[str, str] = field(default_factory=dict)  # what it needs beside what it inherits


def refuse_bypass(command: Sequence[str]) -> None:
    words = find_bypass(command)
    if words is not None:
        raise Forbidden(
            "PERMISSION_BYPASS_REFUSED",
            f"{tame(words)!r} would set the harness's permissions aside.",
            rule="permission_bypass",
        )


def find_bypass(command: Sequence[str]) -> str | None:
    """In one word or in two: an option and its value may be either."""
    named = " ".join(command).lower()
    bypasses = (*BYPASSES, *chain.from_iterable(own for program, own in _NAMED if program.search(named)))
    for words in zip(command, (*command[1:], ""), strict=False):
        said = f" {_SEPARATORS.sub(' ', ' '.join(words))} ".lower()
        if any(bypass in said for bypass in bypasses):
            return " ".join(words).strip()
    return None


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
