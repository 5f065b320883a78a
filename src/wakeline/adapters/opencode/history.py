"""What the stored history of a session says of our doorbells: which the model was shown, and how their turns ended.

Events tell all that, but only to who is listening.  Whoever comes back after an end of ours or of opencode's reads it
here.  Of a turn that died with its process the answer stays unfinished for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wakeline.adapters.opencode.letter import Letter, is_ours, letter_of
from wakeline.adapters.seat_turns import marks_in
from wakeline.core.observation import TurnStatus

ABORTED = "MessageAbortedError"

Message = Mapping[str, Any]  # as opencode stores it: `info` and `parts`


class Shown(NamedTuple):
    mark: str
    turn_id: str  # the prompt that its turn answered
    status: TurnStatus | None  # None: that answer was not finished


def letters_in(history: Sequence[Message]) -> list[Letter]:
    """Our doorbells, oldest first.  A mark in a subject that somebody wrote is not the one its message is made from."""
    ours = [one for one in history if is_ours(str(one["info"].get("id")))]
    made = [letter_of(mark, text_of(one)) for one in ours for mark in marks_in(text_of(one))]
    ids = {one["info"]["id"] for one in ours}
    return [letter for letter in made if letter.message_id in ids]


def shown_in(history: Sequence[Message]) -> list[Shown]:
    """An answer holds all that was stored before the prompt that it answers, and that prompt."""
    infos = [one["info"] for one in history]
    stored = {info["id"]: int(info["time"].get("created", 0)) for info in infos if info.get("role") == "user"}
    waiting = {letter.mark: letter for letter in letters_in(history)}
    turns: dict[str, tuple[tuple[str, ...], Message]] = {}  # by their prompts: new marks, the last answer
    for info in (one for one in infos if one.get("role") == "assistant"):
        parent = str(info.get("parentID"))
        new = tuple(mark for mark, one in waiting.items() if stored[one.message_id] <= stored.get(parent, -1))
        for mark in new:
            del waiting[mark]
        turns[parent] = ((*turns.get(parent, ((), info))[0], *new), info)
    return [Shown(mark, turn, _status(last)) for turn, (marks, last) in turns.items() for mark in marks]


def turn_of(history: Sequence[Message]) -> str | None:
    """The prompt of the newest turn."""
    last = history[-1]["info"] if history else {}
    return last.get("parentID") if last.get("role") == "assistant" else last.get("id")


def is_interrupted(history: Sequence[Message]) -> bool:
    """The human broke the last answer off, and has not spoken since."""
    found = False
    for info in (one["info"] for one in history):
        if info.get("role") == "assistant":
            found = _status(info) == "interrupted"
        elif not is_ours(str(info.get("id"))):
            found = False
    return found


def _status(answer: Message) -> TurnStatus | None:
    error = answer.get("error")
    if error:
        return "interrupted" if isinstance(error, Mapping) and error.get("name") == ABORTED else "failed"
    return "completed" if answer["time"].get("completed") else None


def text_of(message: Message) -> str:
    return "\n".join(str(part.get("text", "")) for part in message.get("parts", ()) if part.get("type") == "text")
