"""D8: what becomes of messages when things go wrong.  Each hardship is tried by itself; the verdict names failures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from wakeline.core.verdict import Grade, Verdict
from wakeline.doctor.stage import MARK, Row, Stage, Unproven
from wakeline.runtime.clock import new_id
from wakeline.testing.model import Say
from wakeline.testing.model.server import ModelTimeout
from wakeline.testing.terminal import TerminalTimeout
from wakeline.testing.worlds import HarnessSession

SECONDS = 90.0
BURST = 5
UNTRIED = "not tried here: loop guards, a harness killed in the middle of a turn"


class Ground(NamedTuple):
    stage: Stage
    session: HarnessSession
    row: Row


def endure(stage: Stage, session: HarnessSession, row: Row) -> Verdict:
    ground = Ground(stage, session, row)
    failed: dict[str, str] = {}
    for name, hardship in HARDSHIPS.items():
        try:
            stage.wait(lambda: stage.idle(session.native_id), SECONDS, "the session did not become idle")
            hardship(ground)
        except (Unproven, ModelTimeout, TerminalTimeout, OSError) as error:
            failed[name] = " ".join(str(error).split())[:120]
    return _verdict(failed)


def _verdict(failed: dict[str, str]) -> Verdict:
    """Never whole: what a probe can try in a minute is not all that can go wrong."""
    shown = {"stood": ",".join(name for name in HARDSHIPS if name not in failed)}
    if len(failed) == len(HARDSHIPS):
        return Verdict("D8", Grade.FAIL, "; ".join(f"{name}: {why}" for name, why in failed.items()))
    return Verdict(
        "D8", Grade.PARTIAL, "; ".join([*(f"{name}: {why}" for name, why in failed.items()), UNTRIED]), shown
    )


def burst_in_a_turn(ground: Ground) -> None:
    """Several messages while the model is speaking: the turn goes on, and each is fetched once, in order."""
    stage, session, row = ground
    gate, tokens = threading.Event(), _tokens(BURST)
    stage.model.script("tell me a long story", Say("It was a dark night.\n\nThe end.", gate))
    before = len(stage.model.requests)
    turn = session.prompt("tell me a long story")
    stage.wait(lambda: (stage.row(session.native_id) or row)["presence"] == "active", SECONDS, "it was not seen active")
    stage.attend()
    for token in tokens:
        stage.post(row, token)
    gate.set()
    _fetched(ground, tokens, before)
    if turn.cut:
        raise Unproven("the turn was cut off")
    if len(stage.model.turns(MARK, session=session.native_id)) > before + BURST:
        raise Unproven("there were more doorbells than messages")


def server_killed(ground: Ground) -> None:
    """The server dies with a message just posted, and comes back: it arrives, and only once."""
    stage, _, row = ground
    tokens, before = _tokens(1), len(stage.model.requests)
    stage.attend()
    stage.post(row, tokens[0])
    stage.server.kill()
    stage.server.start()
    _fetched(ground, tokens, before)


def harness_killed(ground: Ground) -> None:
    """A session that is gone is known to be gone, and what was for it waits."""
    stage, session, row = ground
    session.stop()
    stage.wait(lambda: _is_gone(stage.row(session.native_id)), SECONDS, "nobody noticed that the session is gone")
    before = len(stage.model.requests)
    stage.post(row, new_id())
    if len(stage.model.turns(MARK)) > before:
        raise Unproven("another session was woken in its place")


def _is_gone(row: Row | None) -> bool:
    return row is None or row["ended_at"] is not None or row["liveness"] == "dead"


def _tokens(count: int) -> list[str]:
    return [f"PROBE-{new_id()}" for _ in range(count)]


def _fetched(ground: Ground, tokens: list[str], before: int) -> None:
    """All of them reached the model, each once, in the order in which they were sent."""
    stage, session, _ = ground
    for token in tokens:
        stage.model.wait(token, session=session.native_id, after=before, timeout=SECONDS)
    asked = [one for one in stage.model.turns(session=session.native_id) if one.number > before]
    news = "\n".join(one.news for one in asked)
    if any(news.count(token) > 1 for token in tokens):
        raise Unproven("a message was fetched more than once")
    if sorted(tokens, key=news.index) != tokens:
        raise Unproven("the messages came in another order")


HARDSHIPS: dict[str, Callable[[Ground], None]] = {
    "burst_in_a_turn": burst_in_a_turn,
    "server_killed": server_killed,
    "harness_killed": harness_killed,
}
