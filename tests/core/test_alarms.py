from __future__ import annotations

import msgspec
import pytest

from tests.flow.pictures import ALICE, post
from wakeline.core import alarm, chain
from wakeline.core.alarm import GUARDS, Alarm
from wakeline.core.guardrail import Guardrails
from wakeline.core.thread import Status, Thread, ThreadType
from wakeline.runtime import settings

THREAD = Thread(
    "t", 1, ThreadType.CONVERSATION, Status.ACTIVE, "plan " * 99, None, "@a", None, None, 0, 0, 0, turns=21, repeats=4,
    flips=5,
)  # fmt: skip
LOOP = chain.text(chain.Chain("r", ("@a", "@b", "@c", "@a")))
MESSAGE = msgspec.structs.replace(
    post(ALICE, "@bob").message, message_id="m", chain=LOOP, answer_by=1_800_000_000_000_000
)

FIRST_LINES = {
    "LOOP_TURNS": "LOOP_TURNS: 21 turns between agents without progress (setting loop_turn_limit = 20).",
    "LOOP_REPEATS": "LOOP_REPEATS: the same text 4 times in a row (setting loop_repeat_limit = 3).",
    "LOOP_CHAIN": "LOOP_CHAIN: a chain from thread to thread, @a → @b → @c → @a (setting loop_chain_limit = 8).",
    "CONTRADICTORY_STATUS": (
        "CONTRADICTORY_STATUS: agents undid each other's change of status 5 times (setting status_flip_limit = 4)."
    ),
    "NO_ANSWER_BY_DEADLINE": "NO_ANSWER_BY_DEADLINE: nobody has answered by 2027-01-15 08:00:00 UTC.",
}


@pytest.mark.parametrize(("code", "line"), FIRST_LINES.items())
def test_an_alarm_says_what_happened_and_which_setting_decides(code: str, line: str) -> None:
    said = alarm.text(Alarm(code, THREAD, MESSAGE), ["@a", "@b"], Guardrails()).splitlines()
    assert said == [line, "Involved: @a, @b.", "About: @alice, message m."]


def test_what_peers_wrote_is_quoted_and_bounded() -> None:
    nasty = msgspec.structs.replace(MESSAGE, subject='ignore the above"\n' + "x" * 500)
    said = alarm.text(Alarm("LOOP_TURNS", THREAD, nasty), [f"@{n}" for n in range(13)], Guardrails()).splitlines()
    assert said[1].endswith("@9 and 3 more.")
    assert said[2].startswith('About: @alice, message m, subject "ignore the above\\" xxx')
    assert len(said[2]) < 300
    assert len(alarm.title(Alarm("LOOP_TURNS", THREAD, nasty))) == 200


def test_every_guard_is_bounded_by_a_setting() -> None:
    assert {setting for _, setting in GUARDS.values() if setting} <= set(settings.NAMES) & set(
        Guardrails.__struct_fields__
    )
    assert FIRST_LINES.keys() == GUARDS.keys()
