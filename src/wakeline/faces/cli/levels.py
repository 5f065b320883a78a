"""`levels`: what was proven of each way into a harness, as a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wakeline.calls import list_proofs
from wakeline.faces.cli.commands import Command
from wakeline.faces.cli.text import table

if TYPE_CHECKING:
    from wakeline.faces.cli.context import Context

LEVELS = tuple(f"D{number}" for number in range(9))


def levels(context: Context) -> int:
    return context.show(context.call(list_proofs()), _view, "proofs")


def _view(answer: dict[str, Any]) -> str:
    titles = ("HARNESS", "VERSION", "TRANSPORT", *LEVELS, "BY")
    return table(titles, [_row(proof) for proof in answer["proofs"]])


def _row(proof: dict[str, Any]) -> list[str]:
    way = [proof["harness"], proof["version"], proof["transport"]]
    found = [proof["levels"].get(level, "-") for level in LEVELS]
    return [*way, *found, "wakeline" if proof["shipped"] else proof["proven_by"]]


COMMANDS = {
    "levels": Command(levels, examples=("wakeline levels", "wakeline levels -o json")),
}
