from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.activation.ward import Ward, ward_in
from tests.faces.command_line import Shell


@pytest.fixture
def ward(tmp_path: Path) -> Iterator[Ward]:
    with ward_in(tmp_path) as made:
        yield made


def test_what_is_allowed_tried_and_printed_can_be_read(ward: Ward) -> None:
    human, bob = Shell(ward.server.environ), ward.bob.handle
    assert human.run("agent", "activation", bob).out.strip() == f"nothing is started for {bob}"
    ward.fall_silent()
    ward.send()
    ward.wait_reason("not_allowed")
    assert "not_allowed" in human.run("activations", "list").out
    program = f"sh -c 'echo \"$0 said nothing\"; exit 9' {bob}"
    allowed = human.json("agent", "activation", bob, "--allow", "resume", "--max-per-hour", "1", "--command", program)
    assert allowed["command"] == ["sh", "-c", 'echo "$0 said nothing"; exit 9', bob]
    ward.wait_state("ended")
    listed = human.json("activations", "list", "--of", bob, "--result", "failed")
    row = listed["activations"][0]
    assert (row["way"], row["exit_status"], row["reason"]) == ("resume", 9, "exit_status")
    assert f"{bob} said nothing" in human.run("activations", "show", row["activation_id"]).out
    assert "has ended" in human.run("activations", "stop", row["activation_id"]).out
    assert human.run("activations", "show", "0" * 26).code == 3
    refused = human.run("agent", "activation", bob, "--allow", "spawn", "--command", "claude --yolo", "-o", "json")
    assert refused.error()["code"] == "PERMISSION_BYPASS_REFUSED"
