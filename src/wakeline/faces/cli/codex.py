"""`hook codex`: what Codex's own hooks call.  It tells how the session is, and announces mail at the start of a turn.

A hook stands between a human and the turn that they just started, so it starts fast, and whatever is wrong with us ends
in an empty answer and never in the way: an error would be shown to the human, or stop the turn.
"""

from __future__ import annotations

import json
import sys

from wakeline import calls
from wakeline.errors import WakelineError
from wakeline.faces.cli.commands import OK, Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import Any

    from wakeline.faces.cli.codex_process import Codex
    from wakeline.faces.cli.context import Context

PROMPT, STOP, INTERRUPT = "UserPromptSubmit", "Stop", "Interrupt"
PRESENCE = {PROMPT: "active", STOP: "idle", INTERRUPT: "idle"}
MARK = "wl-"


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("event", nargs="?", choices=tuple(PRESENCE), help="the hook (default: what stdin says)")


def hook(context: Context) -> int:
    answer: dict[str, Any] = {}
    try:
        said = json.loads(sys.stdin.read())
        event = context.arguments.event or said["hook_event_name"]
        if event in PRESENCE and isinstance(said["session_id"], str):
            answer = _attend(context, event, said)
    except (ValueError, KeyError, TypeError, OSError, WakelineError) as error:
        print(f"wakeline: {error}", file=sys.stderr)
    print(json.dumps(answer))
    return OK


def _attend(context: Context, event: str, said: dict[str, Any]) -> dict[str, Any]:
    from wakeline.faces.cli.codex_process import APP_SERVER, find_codex

    codex = find_codex()
    if event != PROMPT and codex.way == APP_SERVER:
        return {}  # the bridge sees the end of a turn by itself, and more exactly
    heard = context.call(_heartbeat(event, said, codex))
    text = heard["doorbell"]
    if event != PROMPT or text is None or MARK in str(said.get("prompt", "")):
        return {}
    return {"hookSpecificOutput": {"hookEventName": PROMPT, "additionalContext": text}}


def _heartbeat(event: str, said: dict[str, Any], codex: Codex) -> calls.Call:
    from wakeline.runtime.processes import host_name

    facts: dict[str, Any] = {
        "harness": "codex",
        "native_id": said["session_id"],
        "host": host_name(),
        "cwd": said.get("cwd"),
        "presence": PRESENCE[event],
        "active_turn_id": said.get("turn_id") if event == PROMPT else None,
        "presence_source": "hook",
        "resumable": True,
    }
    return calls.heartbeat_session(**facts, **codex.facts())


COMMANDS = {
    "hook codex": Command(
        hook,
        arguments=_arguments,
        usage="[EVENT]",
        examples=("wakeline hook codex < event.json", "wakeline hook codex UserPromptSubmit --token-file bob.token"),
    ),
}
