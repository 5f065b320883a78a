"""The question that must be answered by a person.

An override sets rules aside in the human's name, and the system cannot tell the human's processes from those of an
agent that runs as the same user.  A terminal on both ends is the proof that we have.
"""

from __future__ import annotations

import sys

from wakeline.errors import Forbidden


def confirm(question: str, *, yes: bool) -> None:
    """Return when a person agreed; refuse otherwise.  `yes` spares the question, not the terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Forbidden(
            "CONFIRMATION_REQUIRED",
            "An override by the operator must be confirmed on a terminal.",
            "Run it in a terminal as a person, or use the token of a coordinator.",
        )
    if yes:
        return
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Forbidden("NOT_CONFIRMED", "Nothing was changed.", "Answer 'y' to go on.")
