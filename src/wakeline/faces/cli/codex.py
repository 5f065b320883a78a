"""`hook codex`: what Codex's own hooks call.  It tells how the session is, and announces mail at the start of a turn.

A hook stands between a human and the turn that they just started, so it starts fast, and whatever is wrong with us ends
in an empty answer and never in the way: an error would be shown to the human, or stop the turn.

It speaks with the bridge of this host, which knows what is already on its way into the session.  Where there is none,
it asks the server what is unread.
"""

from __future__ import annotations

import json
import sys

from wakeline import calls
from wakeline.errors import WakelineError
from wakeline.faces.cli.codex_process import APP_SERVER, find_codex
from wakeline.faces.cli.commands import OK, Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from typing import Any

    from wakeline.faces.cli.codex_process import Codex
    from wakeline.faces.cli.context import Context

PROMPT, STOP, INTERRUPT = "UserPromptSubmit", "Stop", "Interrupt"
PRESENCE = {PROMPT: "active", STOP: "idle", INTERRUPT: "idle"}
ENDINGS = {STOP: "completed", INTERRUPT: "interrupted"}
MARK = "wl-"
PROMPT_LENGTH = 100_000


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("event", nargs="?", choices=tuple(PRESENCE), help="the hook (default: what stdin says)")


def hook(context: Context) -> int:
    answer: dict[str, Any] = {}
    try:
        said = json.loads(sys.stdin.read())
        event = context.arguments.event or said["hook_event_name"]
        if event in PRESENCE and isinstance(said["session_id"], str) and "agent_id" not in said:  # no sub-agent's
            answer = _attend(context, event, said)
    except (ValueError, KeyError, TypeError, OSError, WakelineError) as error:
        print(f"wakeline: {error}", file=sys.stderr)
    print(json.dumps(answer))
    return OK


def _attend(context: Context, event: str, said: dict[str, Any]) -> dict[str, Any]:
    codex = find_codex()
    if event != PROMPT and codex.way == APP_SERVER:
        return {}  # the bridge sees the end of a turn by itself, and more exactly
    try:
        text = _visit(context, event, said, codex)
    except TimeoutError:
        return {}  # a human waits
    except OSError:  # there is no bridge here
        text = _ask_server(context, event, said, codex)
    return {} if text is None else {"hookSpecificOutput": {"hookEventName": PROMPT, "additionalContext": text}}


def _visit(context: Context, event: str, said: dict[str, Any], codex: Codex) -> str | None:
    """The announcement for the turn that begins.  Raises OSError when there is no bridge."""
    from wakeline.faces.cli.visit import Visit

    turn = {"turn_id": said.get("turn_id")}
    with Visit(context, _facts(event, said), codex) as visit:
        if event != PROMPT:
            visit.say("turn_ended", status=ENDINGS[event], **turn)
            return None
        visit.say("turn_started", text=str(said.get("prompt", ""))[:PROMPT_LENGTH], **turn)
        told = visit.hear("announce")
        if told["marks"]:
            visit.say("injected", marks=told["marks"], **turn)
        text: str | None = told["text"]
        return text


def _ask_server(context: Context, event: str, said: dict[str, Any], codex: Codex) -> str | None:
    from wakeline.runtime.processes import bridged_name

    turn_id = said.get("turn_id") if event == PROMPT else None
    host = bridged_name(context.endpoint().data)
    facts = {**_facts(event, said), **codex.facts(), "active_turn_id": turn_id, "host": host}
    heard = context.call(calls.heartbeat_session(**facts, presence_source="hook", resumable=True))
    text: str | None = heard["doorbell"]
    return None if event != PROMPT or MARK in str(said.get("prompt", "")) else text


def _facts(event: str, said: dict[str, Any]) -> dict[str, Any]:
    return {
        "harness": "codex",
        "native_id": said["session_id"],
        "cwd": said.get("cwd"),
        "presence": PRESENCE[event],
    }


COMMANDS = {
    "hook codex": Command(
        hook,
        arguments=_arguments,
        usage="[EVENT]",
        examples=("wakeline hook codex < event.json", "wakeline hook codex UserPromptSubmit --token-file bob.token"),
    ),
}
