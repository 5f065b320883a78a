from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tools.snippets import ROOT, pages

DEPENDENCIES = (ROOT / "docs" / "dependencies.md").read_text()


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), f"{target} is not there"
        if anchor:
            assert anchor in _anchors(place), f"{target} names no heading"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_dependency_has_a_reason_and_nothing_else_has_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [
        *project["project"]["dependencies"],
        *(one for group in project["dependency-groups"].values() for one in group),
    ]
    names = {re.split(r"[<>=~! ]", one)[0] for one in asked}
    rows = re.findall(r"^\| (`[^|]+) \|", DEPENDENCIES, re.MULTILINE)
    assert names == {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
