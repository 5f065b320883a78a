"""What the program claims of harnesses is what its doctor found with them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.long_results import DIAGNOSIS
from tools.snippets import ROOT
from wakeline.core.level import SHIPPED, admitted
from wakeline.doctor.installs import PINNED
from wakeline.doctor.ways import ways

FOUND = json.loads((ROOT / "docs" / "levels.json").read_text())["harnesses"]
OURS = "reference"  # a companion of our own, which is no harness to probe
CLAIMED = {way: levels for way, levels in SHIPPED.items() if way[0] != OURS}

# Where we claim less than one good probe shows, and why.
HELD_BACK = {
    ("codex", "queue-command", "D8"): "two of eight probes failed (docs/guides/codex.md)",
    ("codex", "tmux", "D8"): "one of five probes failed (docs/guides/connect.md)",
    ("pi", "tmux", "D8"): "one of five probes failed (docs/guides/connect.md)",
}


def found() -> dict[tuple[str, str, str], dict[str, str]]:
    return {
        (one["harness"], one["transport"], one["version"]): {said["level"]: said["result"] for said in one["verdicts"]}
        for one in FOUND
    }


def test_every_way_was_probed_in_the_version_that_is_tested() -> None:
    assert {(one["harness"], one["transport"], one["version"]) for one in FOUND} == {
        (harness, transport, version) for harness, (_, version) in PINNED.items() for transport in ways(harness)
    }


def test_nothing_is_claimed_that_was_not_found() -> None:
    assert {way: admitted(levels, CLAIMED.get(way, {})) for way, levels in found().items()} == CLAIMED


def test_what_was_found_is_claimed_unless_there_is_a_reason() -> None:
    less = {
        (*way[:2], level)
        for way, levels in found().items()
        for level, result in levels.items()
        if CLAIMED[way][level] != result
    }
    assert less <= set(HELD_BACK)


# -- where levels.json comes from -------------------------------------------------------------------------------------


def diagnosis(harness: str, version: str, result: str) -> dict[str, Any]:
    verdict: dict[str, Any] = {"level": "D0", "result": result, "reason": "“why”", "evidence": {}, "latency_ms": None}
    return {"harness": harness, "version": version, "transport": "tmux", "verdicts": [verdict], "healthy": True}


def test_a_whole_run_replaces_what_it_probed_and_leaves_the_rest(tmp_path: Path) -> None:
    old = [{**diagnosis(name, "1.0", "partial"), "probed": "2026-01-01T00:00:00+00:00"} for name in ("codex", "pi")]
    levels = tmp_path / "levels.json"
    levels.write_text(json.dumps({"run": None, "harnesses": old}))
    new = diagnosis("pi", "2.0", "pass")
    probe = (
        f"def test_probe(record_property):\n    record_property({DIAGNOSIS!r}, {json.dumps(new)!r})\n    assert False\n"
    )
    (tmp_path / "test_probe.py").write_text(probe)
    python, report = [sys.executable, "-I"], tmp_path / "long.xml"
    tested = [*python, "-m", "pytest", "-q", "-ojunit_family=xunit1", "--junitxml", str(report), "test_probe.py"]
    assert subprocess.run(tested, cwd=tmp_path, capture_output=True, check=False).returncode == 1
    subprocess.run([*python, ROOT / "tools/long_results.py", report, tmp_path], capture_output=True, check=True)
    kept = json.loads(levels.read_text())
    assert kept["run"].endswith("+00:00")
    assert kept["harnesses"] == [old[0], {**new, "probed": kept["run"]}]
    words = json.loads((tmp_path / "long-tests.json").read_text())["results"]
    assert words == {"test_probe.py": {"test_probe": "failed"}}
