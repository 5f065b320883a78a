from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import wakeline
from tests import harness_tools
from wakeline.adapters.opencode.history import ABORTED as ABORTED_NAME
from wakeline.adapters.opencode.history import Message
from wakeline.adapters.opencode.letter import Letter, is_ours, letter_of
from wakeline.adapters.opencode.session import MOST_POKES, ServedSession
from wakeline.core.observation import Injected, Noticed, Observation, Processed
from wakeline.core.session import Presence

MARK = "wl-01JCZ0VXW3TQ8M5N6P7R8S9TAB"
HARNESSES = Path(wakeline.__file__).parent / "harnesses"

Event = tuple[str, dict[str, Any]]
BUSY: Event = ("session.status", {"status": {"type": "busy"}})
RETRY: Event = ("session.status", {"status": {"type": "retry"}})
IDLE: Event = ("session.status", {"status": {"type": "idle"}})
ASKED: Event = ("permission.asked", {"id": "per_1"})
REPLIED: Event = ("permission.replied", {"requestID": "per_1"})
ABORTED: Event = ("session.error", {"error": {"name": "MessageAbortedError"}})
BROKEN: Event = ("session.error", {"error": {"name": "APIError"}})


def user(message_id: str, at: int) -> Event:
    return "message.updated", {"info": {"id": message_id, "role": "user", "time": {"created": at}}}


def answer(message_id: str, to: str) -> Event:
    return "message.updated", {"info": {"id": message_id, "role": "assistant", "parentID": to}}


def session_with(letter: Letter | None = None) -> ServedSession:
    session = ServedSession("S", "ses_1")
    if letter is not None:
        session.letters[letter.mark] = letter
    return session


def play(session: ServedSession, *events: Event) -> list[Observation]:
    return [seen for kind, properties in events for seen in session.hear(kind, properties)]


PRESENCES = [
    ("nothing happened", (), Presence.IDLE),
    ("a turn runs", (BUSY,), Presence.ACTIVE),
    ("the model is asked again after an error", (RETRY,), Presence.ACTIVE),
    ("a permission is asked for", (BUSY, ASKED), Presence.WAITING_ON_APPROVAL),
    ("it was answered", (BUSY, ASKED, REPLIED), Presence.ACTIVE),
    ("two questions, one answer", (BUSY, ASKED, ("question.asked", {"id": "que_1"}), REPLIED), "waitingOnApproval"),
    ("a question was dismissed", (("question.asked", {"id": "q"}), ("question.rejected", {"requestID": "q"})), "idle"),
    ("the turn is over", (BUSY, IDLE), Presence.IDLE),
    ("the turn ended before the answer was told", (BUSY, ASKED, IDLE), Presence.IDLE),
]


@pytest.mark.parametrize(("why", "events", "expected"), PRESENCES, ids=[row[0] for row in PRESENCES])
def test_presence_follows_the_events(why: str, events: tuple[Event, ...], expected: str) -> None:
    session = session_with()
    play(session, *events)
    assert session.presence == expected


def test_a_doorbell_is_injected_when_an_answer_to_it_begins() -> None:
    letter = letter_of(MARK, "ring")
    session = session_with(letter)
    ours = letter.message_id
    assert Injected("S", (MARK,), ours) in play(session, user(ours, 5), BUSY, answer("msg_a", ours))
    assert play(session, IDLE) == [
        Processed("S", (MARK,), ours, "completed"),
        Noticed("S", Presence.IDLE, None, "opencode"),
    ]
    assert session.letters == {}


def test_an_answer_to_something_older_does_not_hold_the_doorbell() -> None:
    letter = letter_of(MARK, "ring")
    session = session_with(letter)
    told = play(session, user("msg_h", 1), BUSY, user(letter.message_id, 2), answer("msg_a", "msg_h"), IDLE)
    assert not any(isinstance(one, Injected | Processed) for one in told)
    assert session.stranded() == [letter]


def test_an_answer_to_something_newer_holds_the_doorbell_too() -> None:
    letter = letter_of(MARK, "ring")
    told = play(session_with(letter), user(letter.message_id, 2), user("msg_h", 3), BUSY, answer("msg_a", "msg_h"))
    assert Injected("S", (MARK,), "msg_h") in told


STATUSES = [("completed", ()), ("interrupted", (ABORTED,)), ("failed", (BROKEN,))]


@pytest.mark.parametrize(("status", "events"), STATUSES, ids=[row[0] for row in STATUSES])
def test_how_the_turn_ended_is_told(status: str, events: tuple[Event, ...]) -> None:
    letter = letter_of(MARK, "ring")
    session = session_with(letter)
    told = play(session, user(letter.message_id, 2), BUSY, answer("msg_a", letter.message_id), *events, IDLE)
    assert [one.status for one in told if isinstance(one, Processed)] == [status]


def test_what_a_rejected_permission_left_behind_is_stranded_and_bounded() -> None:
    letter = letter_of(MARK, "ring")
    session = session_with(letter)
    play(session, user("msg_h", 1), BUSY, answer("msg_a", "msg_h"), user(letter.message_id, 2), ASKED, REPLIED, IDLE)
    assert session.stranded() == [letter]
    letter.pokes = MOST_POKES
    assert session.stranded() == []


def test_after_an_interrupt_nothing_is_stranded_until_the_human_speaks() -> None:
    letter = letter_of(MARK, "ring")
    session = session_with(letter)
    play(session, user("msg_h", 1), BUSY, answer("msg_a", "msg_h"), user(letter.message_id, 2), ABORTED, IDLE)
    assert session.interrupted
    assert session.stranded() == []
    play(session, user(letter.message_id, 2))  # opencode tells of a message again: that is not the human
    assert session.interrupted
    play(session, user("msg_i", 3))
    assert not session.interrupted


DOORBELL = letter_of(MARK, f'Wakeline: you have 1 unread message: "wl-{"0" * 26}" ({MARK})')
OURS = DOORBELL.message_id


def stored(message_id: str, at: int, text: str = "") -> Message:
    info = {"id": message_id, "role": "user", "time": {"created": at}}
    return {"info": info, "parts": [{"type": "text", "text": text}]}


def answered(to: str, *, done: bool = True, error: str | None = None) -> Message:
    time = {"created": 9, **({"completed": 9} if done else {})}
    info = {"id": f"msg_a{to}", "role": "assistant", "parentID": to, "time": time}
    return {"info": {**info, **({"error": {"name": error}} if error else {})}, "parts": []}


RUNG = stored(OURS, 2, DOORBELL.text)
HISTORIES: list[tuple[str, list[Message], bool, str | None]] = [
    ("nothing was stored", [], False, None),
    ("it was not answered", [RUNG], False, None),
    ("its answer is about to begin", [RUNG], True, None),
    ("it was answered", [RUNG, answered(OURS)], False, "completed"),
    ("it was answered, and the human went on", [RUNG, answered(OURS), stored("msg_h", 3)], True, "completed"),
    ("it was shown with a later prompt", [RUNG, stored("msg_h", 3), answered("msg_h")], False, "completed"),
    ("only what came before it was answered", [stored("msg_h", 1), RUNG, answered("msg_h")], False, None),
    ("it is being answered", [RUNG, answered(OURS, done=False)], True, "shown"),
    ("its answer has another step", [RUNG, answered(OURS)], True, "shown"),
    ("its answer died with opencode", [RUNG, answered(OURS, done=False)], False, "failed"),
    ("its model failed", [RUNG, answered(OURS, error="APIError")], False, "failed"),
    ("the human broke it off", [RUNG, answered(OURS, error=ABORTED_NAME)], False, "interrupted"),
]


@pytest.mark.parametrize("known", [True, False], ids=["rung by us", "rung by another bridge"])
@pytest.mark.parametrize(("why", "history", "running", "expected"), HISTORIES, ids=[row[0] for row in HISTORIES])
def test_the_history_tells_what_happened_while_nobody_followed(
    *, why: str, history: list[Message], running: bool, expected: str | None, known: bool
) -> None:
    session = session_with(letter_of(MARK, DOORBELL.text) if known else None)
    told = session.recall(history, running=running)
    assert [one.marks for one in told if isinstance(one, Injected)] == ([] if expected is None else [(MARK,)])
    ended = [one.status for one in told if isinstance(one, Processed)]
    assert ended == ([] if expected in (None, "shown") else [expected])
    assert (MARK in session.letters) == (expected in (None, "shown") and (known or bool(history)))
    assert (session.busy, session.interrupted) == (running, expected == "interrupted")


def test_what_another_bridge_had_stored_is_not_prompted_again_but_seen_with_the_next_prompt() -> None:
    session = session_with()
    session.recall([RUNG], running=False)
    assert session.stranded() == []
    assert Injected("S", (MARK,), "msg_h") in play(session, user("msg_h", 3), BUSY, answer("msg_a", "msg_h"))
    assert Processed("S", (MARK,), "msg_h", "completed") in play(session, IDLE)


def test_the_plugin_and_the_adapter_make_the_same_ids() -> None:
    letter = letter_of(MARK, "ring")
    program = f"import {{ letterOf, isOurs }} from {json.dumps((HARNESSES / 'opencode/letter.js').as_uri())};"
    program += (
        f"const letter = letterOf({json.dumps(MARK)}, 'ring'); console.log(letter.id, letter.part, isOurs(letter.id));"
    )
    node = harness_tools.node()
    done = subprocess.run([node, "--input-type=module", "-e", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [letter.message_id, letter.part_id, "true"]
    assert is_ours(letter.message_id)
    assert not is_ours("msg_1e49f840b00146JJQc6x3eN3jO")
