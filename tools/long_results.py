"""Keep what `make test-long` found: one word for each test, by file, in docs/long-tests.json.

    python tools/long_results.py REPORT    the report is pytest's, in JUnit's XML

The page docs/reference/long-tests.md is made of it (`make docs`).
"""

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "long-tests.json"


def outcome(case: ET.Element) -> str:
    for word, tag in (("failed", "failure"), ("failed", "error"), ("skipped", "skipped")):
        if case.find(tag) is not None:
            return word
    return "passed"


def results(report: Path) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it a moment ago
        module = str(case.get("classname")).replace(".", "/") + ".py"
        found.setdefault(module, {})[str(case.get("name"))] = outcome(case)
    return {module: dict(sorted(found[module].items())) for module in sorted(found)}


def versions() -> dict[str, str]:
    package = json.loads((ROOT / "requirements/node/package.json").read_bytes())
    wanted: dict[str, str] = {**package["dependencies"], **package["optionalDependencies"]}
    return {name: version for name, version in sorted(wanted.items()) if "conformance" not in name}


def main() -> None:
    found = results(Path(sys.argv[1]))
    TARGET.write_text(json.dumps({"harnesses": versions(), "results": found}, indent=1) + "\n")
    words = [word for tests in found.values() for word in tests.values()]
    print(f"{len(words)} long tests: {words.count('passed')} passed, {words.count('failed')} failed; kept in {TARGET}")


if __name__ == "__main__":
    main()
