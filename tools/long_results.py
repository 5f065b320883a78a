"""Keep what a whole run of `make test-long` found, for the pages that `make docs` makes of it.

    python tools/long_results.py REPORT [FOLDER]    the report is pytest's, in JUnit's XML; the folder is docs/

long-tests.json   one word for each test, by file
levels.json       what the doctor found of each way into a harness, as the tests that run it recorded it.  A way that
                  the run did not get to keeps its older finding, whose `probed` is then not the `run` of the whole.
"""

import json
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DIAGNOSIS = "diagnosis"  # the property of a test that holds one harness of what `wakeline doctor -o json` printed


def outcome(case: ET.Element) -> str:
    for word, tag in (("failed", "failure"), ("failed", "error"), ("skipped", "skipped")):
        if case.find(tag) is not None:
            return word
    return "passed"


def results(report: ET.Element) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for case in report.iter("testcase"):
        module = str(case.get("classname")).replace(".", "/") + ".py"
        found.setdefault(module, {})[str(case.get("name"))] = outcome(case)
    return {module: dict(sorted(found[module].items())) for module in sorted(found)}


def versions() -> dict[str, str]:
    package = json.loads((ROOT / "requirements/node/package.json").read_bytes())
    wanted: dict[str, str] = {**package["dependencies"], **package["optionalDependencies"]}
    return {name: version for name, version in sorted(wanted.items()) if "conformance" not in name}


def diagnoses(report: ET.Element) -> Iterator[dict[str, Any]]:
    for one in report.iter("property"):
        if one.get("name") == DIAGNOSIS:
            yield json.loads(str(one.get("value")))


def begun(report: ET.Element) -> str:
    suite = next(report.iter("testsuite"))
    return datetime.fromisoformat(str(suite.get("timestamp"))).astimezone(UTC).isoformat(timespec="seconds")


def levels(kept: Iterable[dict[str, Any]], found: Iterable[dict[str, Any]], run: str) -> dict[str, Any]:
    probed = [{**one, "probed": run} for one in found]
    newest = {(one["harness"], one["transport"]): one for one in (*kept, *probed)}
    return {"run": run, "harnesses": list(newest.values())}


def write(target: Path, document: dict[str, Any], indent: int) -> None:
    target.write_text(json.dumps(document, indent=indent) + "\n", encoding="utf-8")


def main(report: Path, folder: Path = ROOT / "docs") -> None:
    read = ET.parse(report).getroot()  # noqa: S314 - pytest wrote it a moment ago
    tested, probed = results(read), list(diagnoses(read))
    write(folder / "long-tests.json", {"harnesses": versions(), "results": tested}, 1)
    before = json.loads((folder / "levels.json").read_bytes())["harnesses"]
    write(folder / "levels.json", levels(before, probed, begun(read)), 2)
    words = [word for tests in tested.values() for word in tests.values()]
    print(
        f"{len(words)} long tests: {words.count('passed')} passed, {words.count('failed')} failed; "
        f"{len(probed)} ways into harnesses probed; kept in {folder}"
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
