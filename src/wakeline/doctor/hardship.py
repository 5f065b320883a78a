"""D8: what becomes of messages, and of what the human is doing, when it gets difficult.

Each hardship is tried by itself, with what a human has: keys and a screen.  The verdict names those that it stood and
those that failed; what a harness does not have, such as a question before a command, is named too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wakeline.core.verdict import Grade, Verdict
from wakeline.doctor.stage import LOOP_TURNS, MARK, Row, Stage, Unproven
from wakeline.runtime.clock import new_id
from wakeline.testing.model import Request, Say, Shell
from wakeline.testing.model.server import ModelTimeout
from wakeline.testing.model.tools import offers
from wakeline.testing.terminal import TerminalTimeout
from wakeline.testing.worlds import HarnessSession

SECONDS = 90.0
CUT_SECONDS = 2.0
RESUMED_SECONDS = 10.0  # after that its human says something
PRESSES = 5
BURST = 5
TROUBLE = (Unproven, ModelTimeout, TerminalTimeout, LookupError, RuntimeError, OSError)
HELD = frozenset(("user_typing", "waiting_on_approval", "turn_active", "session_refused"))

Tell = Callable[[str], None]


class Ground(NamedTuple):
    stage: Stage
    session: HarnessSession
    row: Row


class NotHere(Exception):
    """The harness, or the way into it, has no such thing: the text says what."""


def endure(stage: Stage, session: HarnessSession, row: Row, tell: Tell) -> Verdict:
    ground: Ground | None = Ground(stage, session, row)
    stood: dict[str, str] = {}
    failed: dict[str, str] = {}
    absent: dict[str, str] = {}
    for name, hardship in HARDSHIPS.items():
        tell(f"trying: {name}")
        try:
            ground = ground or _afresh(stage)
            stood[name] = hardship(ground)
        except NotHere as reason:
            absent[name] = str(reason)
        except TROUBLE as error:
            failed[name] = " ".join(str(error).split())[:200]
            ground = None  # who knows what it left behind
    return graded(stood, failed, absent)


def _afresh(stage: Stage) -> Ground:
    session, _, row = stage.seat()
    return Ground(stage, session, row)


def graded(stood: dict[str, str], failed: dict[str, str], absent: dict[str, str]) -> Verdict:
    reason = "; ".join(f"{name}: {why}" for name, why in failed.items()) or None
    grade = Grade.PASS if not failed else Grade.PARTIAL if stood else Grade.FAIL
    return Verdict("D8", grade, reason, {**stood, **{name: f"n/a, {why}" for name, why in absent.items()}})


# -- messages ---------------------------------------------------------------------------------------------------------


def burst_in_a_turn(ground: Ground) -> str:
    """Several messages while the model is speaking: the turn goes on, and each is fetched once, in order."""
    stage, session, row = _ready(ground)
    gate, tokens = threading.Event(), _tokens(BURST)
    before, turn = _speaking(ground, gate)
    for token in tokens:
        stage.post(row, token)
    gate.set()
    _fetched(ground, tokens, before)
    if turn.cut:
        raise Unproven("the turn was cut off")
    rung = [one for one in stage.model.turns(MARK, session=session.native_id) if one.number > before]
    if len(rung) > BURST:
        raise Unproven("there were more doorbells than messages")
    return f"{BURST} messages once and in order, {len(rung)} doorbells"


def loop_stopped(ground: Ground) -> str:
    """Two agents that answer each other for ever: a guard stops them until their human lets them go on."""
    stage, session, row = _ready(ground)
    known = {one["message_id"] for one in stage.replies()}
    stage.answer_next()
    said = stage.post(row, f"round 0 {new_id()}")
    for number in range(1, LOOP_TURNS + 1):
        came = stage.wait(lambda: _answers(stage, known), SECONDS, "the session did not answer")[0]
        known.add(came["message_id"])
        _ready(ground)
        asked, token = len(stage.model.requests), f"PROBE-{new_id()}"
        stage.answer_next()
        said = stage.post(row, f"round {number} {token}", reply_to=came["message_id"])
        if stage.status(said["thread_id"]) == "blocked":
            try:
                # A queue may still hold a doorbell for what was read before; it names other messages.
                stage.stays_quiet(session, asked, "a blocked thread rang", MARK, said["message_id"])
            finally:  # what comes next is written there too
                stage.model.forget(MARK)
                stage.unblock(said["thread_id"])
            _fetched(ground, [token], asked)
            return f"blocked after {number} answers, went on when its human unblocked it"
    raise Unproven("two agents went round without end")


def _answers(stage: Stage, known: set[str]) -> list[Row]:
    return [one for one in stage.replies() if one["message_id"] not in known]


def server_killed(ground: Ground) -> str:
    """The server dies with a message just posted, and comes back: it arrives."""
    stage, _, row = _ready(ground)
    tokens, before = _tokens(1), len(stage.model.requests)
    stage.post(row, tokens[0])
    stage.server.kill()
    stage.server.start()
    took = _fetched(ground, tokens, before)
    return f"fetched {took} ms after it was back"


# -- the human --------------------------------------------------------------------------------------------------------


def draft_kept(ground: Ground) -> str:
    """The human has typed and not sent: it stays as it is, and goes out when they send it."""
    stage, session, row = _ready(ground)
    draft, tokens, before = f"half a thought {new_id()}", _tokens(1), len(stage.model.requests)
    session.terminal.type(draft)
    session.terminal.wait(draft)
    posted = time.monotonic()
    stage.post(row, tokens[0])
    held = stage.wait(lambda: _came(ground, tokens[0], before) or _held(stage), SECONDS, "it neither rang nor waited")
    took = (time.monotonic() - posted) * 1_000
    stage.wait(lambda: not _is_active(ground), SECONDS, "the turn did not end")
    if draft not in session.terminal.screen:
        raise Unproven("the draft is gone")
    if any(draft in one.news for one in stage.model.turns(session=session.native_id) if one.number > before):
        raise Unproven("the draft was sent")
    session.terminal.press("Enter")
    stage.model.wait(draft, session=session.native_id, after=before, timeout=SECONDS)
    _fetched(ground, tokens, before)
    return f"held: {held}" if isinstance(held, str) else f"fetched beside it in {took:.0f} ms"


def approval_untouched(ground: Ground) -> str:
    """The harness asks its human for leave: nothing answers, dismisses or talks over that question."""
    stage, session, row = _ready(ground)
    world = stage.world
    if not world.question:
        raise NotHere("it never asks")
    made, tokens = world.project / f"made-{new_id()}", _tokens(1)
    stage.model.script("make a file", Shell(f"touch {made}", asks=True))
    session.prompt("make a file")
    session.terminal.wait(world.question, SECONDS)
    before = len(stage.model.requests)
    stage.post(row, tokens[0])
    held = stage.wait(lambda: _held(stage) or _queued(stage), SECONDS, "it neither waited nor was queued")
    stage.stays_quiet(session, before, "the model was asked while the question was open")
    if world.question not in session.terminal.screen or made.exists():
        raise Unproven("the question was answered or dismissed")
    answered = time.monotonic()
    session.terminal.press_until(world.approves, lambda: world.question not in session.terminal.screen)
    took = _fetched(ground, tokens, before, answered)
    if not made.exists():
        raise Unproven("its human said yes, and it was not done")
    return f"held: {held}, fetched {took} ms after the human's yes"


def escape_heeded(ground: Ground) -> str:
    """The human has cut a turn off: nothing rings until they have spoken."""
    stage, session, row = _ready(ground)
    tokens = _tokens(2)
    before, turn = _speaking(ground, threading.Event())
    stage.post(row, tokens[0])
    stage.wait(lambda: _held(stage) or _queued(stage), SECONDS, "it neither waited nor was queued")
    for _ in range(PRESSES):  # some want it twice; more often than needed it would mean something else
        session.terminal.press("Escape")
        if turn.answered.wait(CUT_SECONDS):
            break
    else:
        raise Unproven("Esc did not cut the turn off")
    stage.wait(lambda: not _is_active(ground), SECONDS, "the end of the turn was not seen")
    asked = len(stage.model.requests)
    stage.post(row, tokens[1])
    stage.stays_quiet(session, asked, "it rang before its human had spoken")
    session.prompt("where were we")
    took = _fetched(ground, tokens, before)
    return f"held until its human spoke, fetched {took} ms after that"


# -- the end ----------------------------------------------------------------------------------------------------------


def killed_in_a_turn(ground: Ground) -> str:
    """The harness dies with a doorbell in its turn: that is noticed, and resumed it reads its mail, once."""
    stage, session, row = _ready(ground)
    gate, tokens, before = threading.Event(), _tokens(1), len(stage.model.requests)
    native_id = session.native_id
    stage.model.script(MARK, Say("Let me see.\n\nThere it is.", gate))
    stage.post(row, tokens[0])
    stage.model.wait(MARK, session=native_id, after=before, timeout=SECONDS)
    killed = time.monotonic()
    stage.way.fell(stage.world, session)
    gate.set()
    stage.wait(lambda: _is_gone(stage.row(session)), SECONDS, "nobody noticed that the session is gone")
    noticed = f"gone in {(time.monotonic() - killed) * 1_000:.0f} ms"
    if stage.way.typed:
        return f"{noticed}; a pane does not come back"
    again = stage.way.resume(stage.world, native_id)
    resumed, how = time.monotonic(), "by itself"
    try:
        stage.wait(lambda: _came(ground, tokens[0], before), RESUMED_SECONDS, "")
    except Unproven:
        how = "when its human spoke"
        stage.greet(again)
    took = _fetched(ground, tokens, before, resumed)
    return f"{noticed}, fetched {how} {took} ms after it was resumed"


def _is_gone(row: Row | None) -> bool:
    return row is None or row["ended_at"] is not None or row["liveness"] == "dead" or row["presence"] == "unknown"


# -- looks ------------------------------------------------------------------------------------------------------------


def _ready(ground: Ground) -> Ground:
    ground.stage.wait(lambda: ground.stage.rests(ground.session), SECONDS, "the session did not become idle")
    return ground


def _speaking(ground: Ground, gate: threading.Event) -> tuple[int, Request]:
    """A turn that lasts until the gate opens: how many requests there were before it, and its own."""
    stage, session, _ = ground
    stage.model.script("tell me a long story", Say("It was a dark night.\n\nThe end.", gate))
    before = len(stage.model.requests)
    turn = session.prompt("tell me a long story")
    stage.wait(lambda: _is_active(ground), SECONDS, "it was not seen active")
    return before, turn


def _is_active(ground: Ground) -> bool:
    return bool((ground.stage.row(ground.session) or ground.row)["presence"] == "active")


def _held(stage: Stage) -> str | None:
    return next((reason for reason in stage.held() if reason in HELD), None)


def _queued(stage: Stage) -> str | None:
    """The newest delivery was taken by the harness's own queue."""
    newest = next(iter(stage.deliveries()), None)
    taken = newest is not None and [one["step"] for one in newest["steps"]][-1] == "triggered"
    return "queued" if taken else None


def _came(ground: Ground, token: str, before: int) -> bool:
    return any(one.number > before for one in ground.stage.model.turns(token, session=ground.session.native_id))


def _tokens(count: int) -> list[str]:
    return [f"PROBE-{new_id()}" for _ in range(count)]


def _fetched(ground: Ground, tokens: list[str], before: int, since: float | None = None) -> int:
    """All of them reach the model, each once, in the order in which they were sent.  The milliseconds until then."""
    stage, session, _ = ground
    began = time.monotonic() if since is None else since
    try:
        came = [stage.model.wait(token, session=session.native_id, after=before, timeout=SECONDS) for token in tokens]
    except ModelTimeout:
        seen = whereabouts(stage.deliveries(), stage.held(), stage.row(session))
        raise Unproven(f"not fetched within {SECONDS:.0f} s; {seen}; {_heard(ground, before)}") from None
    asked = [one for one in stage.model.turns(session=session.native_id) if one.number > before]
    news = "\n".join(one.news for one in asked)
    if any(news.count(token) > 1 for token in tokens):
        raise Unproven("a message was fetched more than once")
    if sorted(tokens, key=news.index) != tokens:
        raise Unproven("the messages came in another order")
    return max(0, round((came[-1].at - began) * 1_000))


def whereabouts(deliveries: Sequence[Row], held: Sequence[str], row: Row | None) -> str:
    """Where mail is that did not arrive: with us, or taken by the harness, which did not bring it before its model."""
    presence = "unknown" if row is None else row["presence"]
    if held:
        return f"held: {', '.join(sorted(set(held)))}; session {presence}"
    if not deliveries:
        return f"never rung; session {presence}"
    newest = deliveries[0]
    taken = (newest["step"], newest["outcome"]) == ("triggered", None)
    words = "the harness took the doorbell and did not show it" if taken else newest["outcome"] or "open"
    return f"last ring {newest['step']}: {words}; session {presence}"


def _heard(ground: Ground, before: int) -> str:
    """What the model was asked meanwhile."""
    asked = [one for one in ground.stage.model.turns(session=ground.session.native_id) if one.number > before]
    rung = [one for one in asked if MARK in one.news]
    tools = "" if all(offers(one, "read_messages") for one in rung) else ", without our tools"
    return f"its model was asked {len(asked)} times, {len(rung)} by a doorbell{tools}"


HARDSHIPS: dict[str, Callable[[Ground], str]] = {
    "burst_in_a_turn": burst_in_a_turn,
    "draft_kept": draft_kept,
    "approval_untouched": approval_untouched,
    "escape_heeded": escape_heeded,
    "loop_stopped": loop_stopped,
    "server_killed": server_killed,
    "killed_in_a_turn": killed_in_a_turn,
}
