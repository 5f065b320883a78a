"""What the program claims of harnesses is what its doctor found with them."""

from __future__ import annotations

import json
from pathlib import Path

from wakeline.core.level import SHIPPED
from wakeline.doctor.installs import PINNED
from wakeline.doctor.ways import ways

FOUND = json.loads((Path(__file__).parent.parent.parent / "docs" / "levels.json").read_text())["harnesses"]
OURS = "reference"  # a companion of our own, which is no harness to probe


def test_every_way_was_probed_in_the_version_that_is_tested() -> None:
    assert {(one["harness"], one["transport"], one["version"]) for one in FOUND} == {
        (harness, transport, version) for harness, (_, version) in PINNED.items() for transport in ways(harness)
    }


def test_nothing_is_claimed_that_was_not_found() -> None:
    found = {
        (one["harness"], one["transport"], one["version"]): {said["level"]: said["result"] for said in one["verdicts"]}
        for one in FOUND
    }
    assert {way: levels for way, levels in SHIPPED.items() if way[0] != OURS} == found
