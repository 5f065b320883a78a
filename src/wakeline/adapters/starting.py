"""The command lines that bring an agent back: one turn, without a terminal, with the rights that its human set up.

Arguments are lists and never reach a shell.  Nothing here says anything about permissions, models or sandboxes: the
harness's own configuration does.  A harness that is not in the table needs the operator's own command.

All of them print events, one JSON object on a line: that is how we learn which session a new process works in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from wakeline import wire
from wakeline.adapters.codex import commands
from wakeline.core.launch import Program, fill, refuse_bypass

IN_USE = "already has an active writer"  # Codex refuses a thread that is open anywhere


# Claude Code begins its turn two seconds after its start, with or without the tools that it was told to have, and the
# mail would stay unread.  The first variable is that of 2.1.274 and later, the others are those of older ones.
PATIENT = {
    "CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "30000",
    "MCP_CONNECTION_NONBLOCKING": "false",
    "MCP_CONNECT_TIMEOUT_MS": "30000",
}


class Start(msgspec.Struct, frozen=True):
    resume: Callable[[str, str], list[str]]  # the session's native id, the prompt
    spawn: Callable[[str], list[str]]
    names: tuple[str, str]  # the type of the event that names its session, and the field; an empty type: any
    environ: Mapping[str, str] = {}  # unless the bridge's own says otherwise


CLAUDE = ("claude", "-p", "--output-format", "stream-json", "--verbose")
RUN = ("opencode", "run", "--format", "json")
PI_PRINT = ("pi", "-p", "--mode", "json")

CODEX = Start(resume=commands.resume, spawn=commands.begin, names=("thread.started", "thread_id"))
CLAUDE_CODE = Start(
    resume=lambda native_id, prompt: [*CLAUDE, "--resume", native_id, prompt],
    spawn=lambda prompt: [*CLAUDE, prompt],
    names=("system", "session_id"),
    environ=PATIENT,
)
OPENCODE = Start(
    resume=lambda native_id, prompt: [*RUN, "--session", native_id, prompt],
    spawn=lambda prompt: [*RUN, prompt],
    names=("", "sessionID"),
)
PI = Start(
    resume=lambda native_id, prompt: [*PI_PRINT, "--session", native_id, prompt],
    spawn=lambda prompt: [*PI_PRINT, prompt],
    names=("session", "id"),
)
STARTS: Mapping[str, Start] = {"codex": CODEX, "claude-code": CLAUDE_CODE, "opencode": OPENCODE, "pi": PI}

_NATIVE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")
_event = msgspec.json.Decoder(dict[str, object]).decode


def session_in(harness: str, head: str) -> str | None:
    """The session that a harness says it works in, in what it printed first."""
    start = STARTS.get(harness)
    if start is None:
        return None
    kind, field = start.names
    for line in head.splitlines():
        event = _parsed(line) if line.startswith("{") else {}
        named = event.get(field) if kind in ("", event.get("type")) else None
        if isinstance(named, str) and _NATIVE_ID.fullmatch(named):
            return named
    return None


def _parsed(line: str) -> dict[str, object]:
    try:
        return _event(line)
    except msgspec.MsgspecError:  # words between the events, or a line that is not whole yet
        return {}


def program_for(order: wire.ActivationOrder) -> Program | None:
    """What to start, or None where nobody has said how.  Raises Forbidden for what would set permissions aside."""
    start = STARTS.get(order.harness or "")
    command = _own(order) if order.command is not None else _shipped(order, start)
    return None if command is None else Program(command, {} if start is None else start.environ)


def _own(order: wire.ActivationOrder) -> list[str]:
    command = order.command or []
    refuse_bypass(command)
    given = {"prompt": order.prompt, "session": order.native_id or "", "handle": order.handle, "way": order.way}
    return fill(command, given)


def _shipped(order: wire.ActivationOrder, start: Start | None) -> list[str] | None:
    if start is None:
        return None
    if order.way == "resume":
        return None if order.native_id is None else start.resume(order.native_id, order.prompt)
    return start.spawn(order.prompt)
