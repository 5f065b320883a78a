"""Decide a batch: every command in order over one picture, one outcome each.

A refusal is an outcome.  Any other exception is a bug or a broken store: it rises, and the writer runs the commands of
the batch again one by one, so that it can hurt only its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.store import Command
from wakeline.errors import POLICY, WakelineError


def needs_of(commands: Sequence[Command[Any]]) -> Needs:
    needs = Needs()
    for command in commands:
        command.needs(needs)
    return needs


def decide_all(commands: Sequence[Command[Any]], picture: Picture) -> list[Any]:
    """Answers in order; a refused command's answer is its error."""
    outcomes: list[Any] = []
    for command in commands:
        try:
            outcomes.append(command.decide(picture))
        except WakelineError as refusal:
            _audit(command, refusal, picture)
            outcomes.append(refusal)
    return outcomes


def _audit(command: Command[Any], refusal: WakelineError, picture: Picture) -> None:
    caller = getattr(command, "caller", None)
    if isinstance(caller, Caller) and isinstance(refusal, POLICY):
        refusal.audited = True
        picture.count_refusal(caller.handle, str(refusal.details.get("rule", refusal.code)), refusal.message)
