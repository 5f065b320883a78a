from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import wakeline
from wakeline import errors
from wakeline.errors import CATALOGUE, WakelineError

PACKAGE = Path(wakeline.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
KINDS = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, WakelineError) and kind is not WakelineError
}
# What the command line and the client find out by themselves never travels, and brings its own hint.
LOCAL = tuple(PACKAGE / name for name in ("connect", "doctor", "faces/cli", "client.py", "endpoint.py"))


@cache
def raised() -> list[tuple[ast.Call, str, str, Path]]:
    """Every (call, class, code, file) with which our own source makes an error."""
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in KINDS:
                found += [(node, name, code, path) for code in codes_of(node.args[0])]
    return found


def codes_of(argument: ast.expr) -> Iterator[str]:
    """The codes in the first argument.  What is put together, as a path parameter's `…_NOT_FOUND`, cannot be read."""
    if isinstance(argument, ast.JoinedStr):
        return
    for node in ast.walk(argument):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def is_local(path: Path) -> bool:
    return any(path.is_relative_to(place) for place in LOCAL)


def test_every_code_that_the_server_raises_is_in_the_catalogue() -> None:
    assert {code for _, _, code, path in raised() if not is_local(path)} <= CATALOGUE.keys()


def test_a_code_outside_the_catalogue_brings_its_own_hint() -> None:
    for call, _, code, path in raised():
        assert code in CATALOGUE or len(call.args) > 2, f"{code} in {path}"


def test_every_code_in_the_catalogue_is_raised_somewhere() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES if path.name != "errors.py")
    assert {code for code in CATALOGUE if f'"{code}"' not in text} == set()


def test_one_code_has_one_status() -> None:
    statuses: dict[str, set[int]] = defaultdict(set)
    for _, name, code, _ in raised():
        statuses[code].add(KINDS[name].status)
    assert {code: found for code, found in statuses.items() if len(found) > 1} == {}


def test_every_hint_says_what_to_do() -> None:
    for code, hint in CATALOGUE.items():
        assert hint.endswith("."), code
        assert len(hint) > 10, code


def test_only_what_may_pass_by_itself_is_retryable() -> None:
    assert {name for name, kind in KINDS.items() if kind.retryable} == {
        "RateLimited",
        "TooSlow",
        "Unavailable",
    }


def test_an_error_told_again_is_equal_and_shares_nothing() -> None:
    first = errors.Unusable("STORE_CORRUPT", "It is damaged.", "Restore it.", path="x")
    second = first.again()
    second.details["more"] = 1
    assert type(second) is errors.Unusable
    assert (second.code, second.message, second.hint) == (first.code, first.message, first.hint)
    assert first.details == {"path": "x"}
