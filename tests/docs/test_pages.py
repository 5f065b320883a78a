from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tools.snippets import ROOT, pages
from wakeline.flow.post import UNDELIVERABLE

PREPARED = {"task.state_changed", "notice.assigned"}  # matched, but nothing produces such rows yet
PACKAGE = ROOT / "src" / "wakeline"
FILES = [
    f"/{file.relative_to(ROOT)}"
    for folder in ("bench", "docs", "src", "tests", "tools")
    for kind in ("*.py", "*.sql")
    for file in (ROOT / folder).rglob(kind)
]
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


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_ours_that_a_page_names_is_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    named = re.findall(r"`([\w./-]+\.(?:py|sql))`", text)
    assert not [name for name in named if not any(file.endswith(f"/{name}") for file in FILES)]


def test_the_guide_names_every_kind_of_row_in_the_log() -> None:
    files = [*(PACKAGE / "flow").glob("*.py"), PACKAGE / "core" / "log.py", PACKAGE / "core" / "row_data.py"]
    sources = "".join(file.read_text() for file in files)
    kinds = set(re.findall(r'"([a-z_]+\.[a-z_]+)"', sources)) - PREPARED
    kinds |= {f"subscription.{what}" for what in re.findall(r'\brecord\(picture, "([a-z]+)", row,', sources)}
    guide = (ROOT / "docs" / "guides" / "event-stream.md").read_text()
    rows = re.findall(r"^\| (`[a-z_]+\.[^|]+) \|", guide, re.MULTILINE)
    assert {kind for row in rows for kind in re.findall(r"`([^`]+)`", row)} == kinds


def test_the_guide_names_every_refusal_that_keeps_a_dead_letter() -> None:
    guide = (ROOT / "docs" / "guides" / "operating.md").read_text()
    section = guide.partition("\n## Dead letters\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", section, re.MULTILINE)) == UNDELIVERABLE


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
