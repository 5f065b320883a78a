"""What is started for each harness, and that none of it says anything about permissions."""

from __future__ import annotations

from typing import Any

import pytest

from wakeline import wire
from wakeline.adapters.starting import PATIENT, STARTS, program_for, session_in
from wakeline.core.launch import refuse_bypass
from wakeline.errors import Forbidden


def order(**fields: Any) -> wire.ActivationOrder:
    said = {
        "activation_id": "a", "fence": 1, "handle": "@bob", "way": "resume", "harness": None, "native_id": "n1",
        "cwd": None, "pid": None, "pid_started_at": None, "command": None, "prompt": "You have mail.", "seconds": 60,
        **fields,
    }  # fmt: skip
    return wire.ActivationOrder(**said)


@pytest.mark.guarantee("G-ACTIVATION-NO-BYPASS")
@pytest.mark.parametrize("way", ["resume", "spawn"])
@pytest.mark.parametrize("harness", sorted(STARTS))
def test_what_ships_gets_the_prompt_and_no_rights(harness: str, way: str) -> None:
    program = program_for(order(harness=harness, way=way))
    assert program is not None
    assert program.command[-1] == "You have mail."
    assert ("n1" in program.command) is (way == "resume")
    refuse_bypass(program.command)
    assert program.environ == (PATIENT if harness == "claude-code" else {})


@pytest.mark.guarantee("G-ACTIVATION-NO-BYPASS")
def test_a_command_of_the_operators_is_checked_once_more_before_it_is_started() -> None:
    with pytest.raises(Forbidden):
        program_for(order(command=["codex", "--yolo", "{prompt}"]))


def test_a_command_of_the_operators_waits_for_tools_as_ours_does() -> None:
    program = program_for(order(command=["my-claude", "{session}", "{prompt}"], harness="claude-code"))
    assert program is not None
    assert program.command == ["my-claude", "n1", "You have mail."]
    assert program.environ == PATIENT


@pytest.mark.parametrize("fields", [{"harness": None}, {"harness": "unheard-of"}, {"harness": "pi", "native_id": None}])
def test_nothing_is_made_up_where_nobody_has_said_how(fields: dict[str, Any]) -> None:
    assert program_for(order(**fields)) is None


WORDS = "Reading additional input from stdin...\n"
HEADS = [
    ("codex", '{"type":"thread.started","thread_id":"01a1-e5"}\n{"type":"turn.started"}\n', "01a1-e5"),
    ("pi", '{"type":"session","version":3,"id":"01a1-e5","cwd":"/x"}\n{"type":"agent_start"}\n', "01a1-e5"),
    ("claude-code", '{"type":"system","subtype":"init","cwd":"/x","session_id":"a462-8a"}\n', "a462-8a"),
    ("opencode", '{"type":"step_start","sessionID":"ses_e1","part":{"id":"prt_1"}}\n', "ses_e1"),
    # not its words: another harness, another event, a value that could not be an id, a line that is still being printed
    ("unheard-of", '{"type":"session","id":"01a1-e5"}\n', None),
    ("pi", '{"type":"message_start","id":"01a1-e5"}\n', None),
    ("codex", '{"type":"thread.started","thread_id":"--yolo"}\n', None),
    ("codex", '{"type":"thread.started","thread_id":7}\n', None),
    ("codex", '{"type":"thread.started","thread_', None),
    ("codex", "", None),
]


@pytest.mark.parametrize(("harness", "head", "named"), HEADS)
def test_a_harness_names_its_session_in_what_it_prints(harness: str, head: str, named: str | None) -> None:
    assert session_in(harness, head) == named
    assert session_in(harness, WORDS + head) == named


def test_the_first_name_counts() -> None:
    lines = [f'{{"type":"thread.started","thread_id":"{name}"}}' for name in ("first", "second")]
    assert session_in("codex", "\n".join(lines)) == "first"
