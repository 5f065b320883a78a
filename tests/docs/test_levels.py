"""What the program claims of harnesses is what its doctor found with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wakeline.core.level import SHIPPED
from wakeline.doctor.installs import PINNED

FOUND = json.loads((Path(__file__).parent.parent.parent / "docs" / "levels.json").read_text())["harnesses"]


def test_every_harness_was_probed_in_the_version_that_is_tested() -> None:
    assert {(one["harness"], one["version"]) for one in FOUND} == {
        (harness, version) for harness, (_, version) in PINNED.items()
    }


@pytest.mark.parametrize("found", FOUND, ids=[one["harness"] for one in FOUND])
def test_nothing_is_claimed_that_was_not_found(found: dict[str, Any]) -> None:
    graded = {one["level"]: one["result"] for one in found["verdicts"]}
    assert SHIPPED[found["harness"], found["transport"], found["version"]] == graded
