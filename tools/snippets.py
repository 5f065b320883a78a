"""Put the files of docs/snippets/ into the pages that show them (`make docs`).

A page shows a snippet as a comment with its name and a fenced block below it.  The file is the original: it is what the
tests run.  `tests/docs/test_snippets.py` fails when a page and a file differ.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SNIPPETS = ROOT / "docs" / "snippets"
LANGUAGES = {".console": "console", ".py": "python", ".sh": "sh", ".toml": "toml"}

_block = re.compile(
    r"^<!-- snippet: (?P<name>[\w.-]+) -->\n```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


class Shown(NamedTuple):
    """A snippet as a page shows it."""

    page: Path
    name: str
    text: str


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def shown() -> Iterator[Shown]:
    for page in pages():
        for found in _block.finditer(page.read_text(encoding="utf-8")):
            yield Shown(page, found["name"], found["text"])


def refresh(text: str) -> str:
    """The page with every snippet as its file has it now."""

    def block(found: re.Match[str]) -> str:
        file = SNIPPETS / found["name"]
        original = file.read_text(encoding="utf-8")
        return f"<!-- snippet: {file.name} -->\n```{LANGUAGES[file.suffix]}\n{original}```"

    return _block.sub(block, text)


def main() -> int:
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = refresh(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"wrote {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
