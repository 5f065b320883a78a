from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tools.snippets import ROOT

MANIFEST: list[dict[str, Any]] = tomllib.loads((ROOT / "docs" / "guarantees.toml").read_text())["guarantee"]
IDS = [one["id"] for one in MANIFEST]


@cache
def marked() -> dict[str, frozenset[str]]:
    """Every test of ours and the guarantees that it is marked with."""
    return {
        f"{path.relative_to(ROOT)}::{node.name}": frozenset(_guarantees(node))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def _guarantees(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.guarantee":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def test_ids_are_unique() -> None:
    assert len(set(IDS)) == len(IDS)


@pytest.mark.parametrize("guarantee", MANIFEST, ids=IDS)
def test_a_guarantee_is_shown_by_tests_that_say_so(guarantee: dict[str, Any]) -> None:
    assert guarantee["tests"], "a guarantee without a test is a wish"
    for test in guarantee["tests"]:
        assert test in marked(), f"{test} does not exist"
        assert guarantee["id"] in marked()[test], f'{test} lacks @pytest.mark.guarantee("{guarantee["id"]}")'


@pytest.mark.parametrize("test", [name for name, ids in marked().items() if ids])
def test_a_test_that_shows_a_guarantee_is_in_the_manifest(test: str) -> None:
    listed = {one["id"] for one in MANIFEST if test in one["tests"]}
    assert marked()[test] == listed, f"docs/guarantees.toml lists {sorted(listed)} for {test}"
