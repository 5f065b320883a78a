"""What is started for each harness, and that none of it says anything about permissions."""

from __future__ import annotations

from typing import Any

import pytest

from wakeline import wire
from wakeline.adapters import starting
from wakeline.adapters.codex import commands
from wakeline.adapters.starting import PATIENT, Start, program_for
from wakeline.core.launch import refuse_bypass
from wakeline.errors import Forbidden

STARTS = {
    "codex": Start(commands.resume, commands.begin),
    "claude-code": starting.CLAUDE_CODE,
    "opencode": starting.OPENCODE,
    "pi": starting.PI,
}


def order(**fields: Any) -> wire.ActivationOrder:
    said = {
        "activation_id": "a", "fence": 1, "handle": "@bob", "way": "resume", "harness": None, "native_id": "n1",
        "cwd": None, "pid": None, "pid_started_at": None, "command": None, "prompt": "You have mail.", "seconds": 60,
        **fields,
    }  # fmt: skip
    return wire.ActivationOrder(**said)


@pytest.mark.guarantee("G-ACTIVATION-NO-BYPASS")
@pytest.mark.parametrize("way", ["resume", "spawn"])
@pytest.mark.parametrize("harness", STARTS)
def test_what_ships_gets_the_prompt_and_no_rights(harness: str, way: str) -> None:
    program = program_for(order(harness=harness, way=way), STARTS)
    assert program is not None
    assert program.command[-1] == "You have mail."
    assert ("n1" in program.command) is (way == "resume")
    refuse_bypass(program.command)
    assert program.environ == (PATIENT if harness == "claude-code" else {})


@pytest.mark.guarantee("G-ACTIVATION-NO-BYPASS")
def test_a_command_of_the_operators_is_checked_once_more_before_it_is_started() -> None:
    with pytest.raises(Forbidden):
        program_for(order(command=["codex", "--yolo", "{prompt}"]), STARTS)


def test_a_command_of_the_operators_waits_for_tools_as_ours_does() -> None:
    program = program_for(order(command=["my-claude", "{session}", "{prompt}"], harness="claude-code"), STARTS)
    assert program is not None
    assert program.command == ["my-claude", "n1", "You have mail."]
    assert program.environ == PATIENT


@pytest.mark.parametrize("fields", [{"harness": None}, {"harness": "unheard-of"}, {"harness": "pi", "native_id": None}])
def test_nothing_is_made_up_where_nobody_has_said_how(fields: dict[str, Any]) -> None:
    assert program_for(order(**fields), STARTS) is None
