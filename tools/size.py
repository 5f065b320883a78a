"""Report how long our functions and modules are, and fail when one is too long.

The tail matters, not the average: the ten longest are always shown, before any of them reaches a limit.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("src", "tests")
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Limit:
    kind: str
    question: int
    never: int


@dataclass(frozen=True, slots=True)
class Piece:
    name: str
    lines: int


FUNCTIONS = Limit("functions", question=25, never=50)
MODULES = Limit("modules", question=300, never=500)


def functions(tree: ast.Module, path: Path) -> Iterator[Piece]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.end_lineno or node.lineno
            yield Piece(f"{path}:{node.lineno} {node.name}", last - node.lineno + 1)


def measure(paths: list[Path]) -> tuple[list[Piece], list[Piece]]:
    modules: list[Piece] = []
    inside: list[Piece] = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        modules.append(Piece(str(path), len(text.splitlines())))
        inside.extend(functions(ast.parse(text, filename=str(path)), path))
    return modules, inside


def report(pieces: list[Piece], limit: Limit) -> list[Piece]:
    """Print the longest and return those that no reason excuses."""
    longest = sorted(pieces, key=lambda piece: (-piece.lines, piece.name))
    questioned = sum(piece.lines > limit.question for piece in pieces)
    print(f"\n{len(pieces)} {limit.kind}, {questioned} longer than {limit.question} lines; the longest:")
    for piece in longest[:SHOWN]:
        print(f"  {piece.lines:5}  {piece.name}")
    return [piece for piece in longest if piece.lines > limit.never]


def main() -> int:
    modules: list[Piece] = []
    inside: list[Piece] = []
    for folder in FOLDERS:
        in_folder, in_modules = measure(sorted(Path(folder).rglob("*.py")))
        print(f"{folder}: {sum(module.lines for module in in_folder)} lines in {len(in_folder)} modules")
        modules += in_folder
        inside += in_modules
    failed = False
    for pieces, limit in ((inside, FUNCTIONS), (modules, MODULES)):
        for piece in report(pieces, limit):
            failed = True
            print(f"  too long, never more than {limit.never} lines: {piece.name} ({piece.lines})")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
