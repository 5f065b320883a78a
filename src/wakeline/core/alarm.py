"""The guards that call the human: their codes, and what is said when one fires.

The text follows from the facts alone.  What peers wrote is quoted and bounded, so that it cannot pass for ours.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wakeline.core.chain import parse
from wakeline.core.guardrail import Guardrails
from wakeline.core.instant import to_datetime
from wakeline.core.message import Message
from wakeline.core.summary import short
from wakeline.core.thread import Thread

LOOP_TURNS = "LOOP_TURNS"
LOOP_REPEATS = "LOOP_REPEATS"
LOOP_CHAIN = "LOOP_CHAIN"
CONTRADICTORY_STATUS = "CONTRADICTORY_STATUS"
NO_ANSWER_BY_DEADLINE = "NO_ANSWER_BY_DEADLINE"

# What each guard watches, and the setting that bounds it.
GUARDS: dict[str, tuple[str, str]] = {
    LOOP_TURNS: ("Agents take turns in one thread and nothing moves on.", "loop_turn_limit"),
    LOOP_REPEATS: ("Agents say the same text in a row in one thread.", "loop_repeat_limit"),
    LOOP_CHAIN: ("One message leads to the next from thread to thread.", "loop_chain_limit"),
    CONTRADICTORY_STATUS: ("Agents undo each other's changes of a thread's status.", "status_flip_limit"),
    NO_ANSWER_BY_DEADLINE: ("Nobody has answered a message by its 'answer_by'.", ""),
}

NAMED = 10
TITLE = 200
_quote = msgspec.json.Encoder().encode


class Alarm(msgspec.Struct, frozen=True):
    code: str
    thread: Thread
    message: Message  # the one that made the guard fire


def title(alarm: Alarm) -> str:
    return f"{alarm.code}: {alarm.thread.title}"[:TITLE]


def text(alarm: Alarm, agents: Sequence[str], rails: Guardrails) -> str:
    """What happened, who was in it, what was last said, and which setting decides, if one does."""
    setting = GUARDS[alarm.code][1]
    limit = f" (setting {setting} = {getattr(rails, setting)})" if setting else ""
    lines = [
        f"{alarm.code}: {_fact(alarm)}{limit}.",
        f"Involved: {_names(agents)}.",
        f"About: {alarm.message.sender}, message {alarm.message.message_id}{_subject(alarm.message)}.",
    ]
    return "\n".join(lines)


def _fact(alarm: Alarm) -> str:
    thread, message = alarm.thread, alarm.message
    if alarm.code == LOOP_TURNS:
        return f"{thread.turns} turns between agents without progress"
    if alarm.code == LOOP_REPEATS:
        return f"the same text {thread.repeats} times in a row"
    if alarm.code == CONTRADICTORY_STATUS:
        return f"agents undid each other's change of status {thread.flips} times"
    if alarm.code == NO_ANSWER_BY_DEADLINE:
        return f"nobody has answered by {to_datetime(message.answer_by or 0):%Y-%m-%d %H:%M:%S} UTC"
    return f"a chain from thread to thread, {'' if message.chain is None else parse(message.chain)}"


def _names(agents: Sequence[str]) -> str:
    more = f" and {len(agents) - NAMED} more" if len(agents) > NAMED else ""
    return ", ".join(agents[:NAMED]) + more


def _subject(message: Message) -> str:
    return "" if message.subject is None else f", subject {_quote(short(message.subject)).decode()}"
