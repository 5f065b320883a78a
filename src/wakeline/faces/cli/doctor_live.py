"""`doctor --live @agent`: ring a session that is at work, with its human's consent, and say how the ring came there.

It costs the session a turn, so it asks first.  What it posts says that there is nothing to do.
"""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wakeline.calls import get_delivery, list_deliveries, list_sessions, post_message
from wakeline.errors import NotFound
from wakeline.faces.cli.commands import FAILED, OK
from wakeline.faces.cli.confirm import confirm
from wakeline.faces.cli.text import one_line, pad

if TYPE_CHECKING:
    from wakeline.faces.cli.context import Context

SECONDS = 60.0
LOOK_SECONDS = 0.2
BODY = "A test ring by 'wakeline doctor'. There is nothing to do: acknowledge it and go on."
ARRIVED = ("injected", "processed", "replied")


def ring(context: Context) -> int:
    session = _live_session(context, context.arguments.live)
    shown = f"{session['harness']} session {session['session_id']} of {session['handle']}"
    if not context.arguments.yes:
        confirm(f"Ring the {one_line(shown)}? It costs the session a turn.", yes=False)
    sys.stderr.write(f"ringing the {one_line(shown)}\n")
    address = f"{session['handle']}/{session['session_id']}"
    posted = context.call(post_message(BODY, to=[address], subject="a test ring", wake_policy="immediate"))
    delivery = _follow(context, session, posted["log_id"])
    answer = _answer(session, posted, delivery)
    context.show(answer, _view)
    return OK if answer["arrived"] else FAILED


def _live_session(context: Context, handle: str) -> dict[str, Any]:
    found = [one for one in context.call(list_sessions(handle=handle))["sessions"] if one["liveness"] != "dead"]
    if not found:
        hint = "'wakeline session list' shows who is there."
        raise NotFound("SESSION_NOT_FOUND", f"{handle} has no live session.", hint)
    return max(found, key=lambda one: str(one["last_seen_at"]))


def _follow(context: Context, session: dict[str, Any], log_id: int) -> dict[str, Any] | None:
    """The delivery of what was posted, as far as it gets in time."""
    newest: dict[str, Any] | None = None
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        listed = context.call(list_deliveries(handle=session["handle"]))["deliveries"]
        mine = [one for one in listed if one["session_id"] == session["session_id"] and one["log_id"] >= log_id]
        if mine:
            newest = dict(context.call(get_delivery(mine[-1]["delivery_id"])))
            if newest["step"] in ARRIVED or newest["outcome"] in ("failed", "skipped"):
                return newest
        time.sleep(LOOK_SECONDS)
    return newest


def _answer(session: dict[str, Any], posted: dict[str, Any], delivery: dict[str, Any] | None) -> dict[str, Any]:
    began = datetime.fromisoformat(posted["created_at"])
    steps = [] if delivery is None else delivery["steps"]
    return {
        "arrived": any(step["step"] in ARRIVED for step in steps),
        "session_id": session["session_id"],
        "harness": session["harness"],
        "harness_version": session["harness_version"],
        "transport": session["transport"],
        "outcome": None if delivery is None else delivery["outcome"],
        "reason": None if delivery is None else delivery["reason"],
        "steps": [
            {"step": step["step"], "milliseconds": (datetime.fromisoformat(step["at"]) - began).total_seconds() * 1_000}
            for step in steps
        ],
    }


def _view(answer: dict[str, Any]) -> str:
    path = " ".join(str(answer[name] or "-") for name in ("harness", "harness_version", "transport"))
    lines = [f"{pad(step['step'], 10)} {step['milliseconds']:8.0f} ms" for step in answer["steps"]]
    verdict = (
        "the ring arrived" if answer["arrived"] else f"the ring did not arrive: {answer['reason'] or 'no sign of it'}"
    )
    return "\n".join((f"path: {one_line(path)}", *lines, one_line(verdict)))
