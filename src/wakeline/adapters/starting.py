"""The command lines that bring an agent back: one turn, without a terminal, with the rights that its human set up.

Arguments are lists and never reach a shell.  Nothing here says anything about permissions, models or sandboxes: the
harness's own configuration does.  A harness that is not in the table needs the operator's own command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from wakeline import wire
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
    environ: Mapping[str, str] = {}  # unless the bridge's own says otherwise


Starts = Mapping[str, Start]

CLAUDE_CODE = Start(
    resume=lambda native_id, prompt: ["claude", "-p", "--resume", native_id, prompt],
    spawn=lambda prompt: ["claude", "-p", prompt],
    environ=PATIENT,
)
OPENCODE = Start(
    resume=lambda native_id, prompt: ["opencode", "run", "--session", native_id, prompt],
    spawn=lambda prompt: ["opencode", "run", prompt],
)
PI = Start(
    resume=lambda native_id, prompt: ["pi", "-p", "--session", native_id, prompt],
    spawn=lambda prompt: ["pi", "-p", prompt],
)


def program_for(order: wire.ActivationOrder, starts: Starts) -> Program | None:
    """What to start, or None where nobody has said how.  Raises Forbidden for what would set permissions aside."""
    start = starts.get(order.harness or "")
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
