"""The command lines that bring an agent back: one turn, without a terminal, with the rights that its human set up.

Arguments are lists and never reach a shell.  Nothing here says anything about permissions, models or sandboxes: the
harness's own configuration does.  A harness that is not in the table needs the operator's own command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from wakeline import wire
from wakeline.core.launch import fill, refuse_bypass

IN_USE = "already has an active writer"  # Codex refuses a thread that is open anywhere


class Start(msgspec.Struct, frozen=True):
    resume: Callable[[str, str], list[str]]  # the session's native id, the prompt
    spawn: Callable[[str], list[str]]


Starts = Mapping[str, Start]

CLAUDE_CODE = Start(
    resume=lambda native_id, prompt: ["claude", "-p", "--resume", native_id, prompt],
    spawn=lambda prompt: ["claude", "-p", prompt],
)
OPENCODE = Start(
    resume=lambda native_id, prompt: ["opencode", "run", "--session", native_id, prompt],
    spawn=lambda prompt: ["opencode", "run", prompt],
)
PI = Start(
    resume=lambda native_id, prompt: ["pi", "-p", "--session", native_id, prompt],
    spawn=lambda prompt: ["pi", "-p", prompt],
)


def command_for(order: wire.ActivationOrder, starts: Starts) -> list[str] | None:
    """What to start, or None where nobody has said how.  Raises Forbidden for what would set permissions aside."""
    if order.command is not None:
        refuse_bypass(order.command)
        given = {"prompt": order.prompt, "session": order.native_id or "", "handle": order.handle, "way": order.way}
        return fill(order.command, given)
    start = starts.get(order.harness or "")
    if start is None:
        return None
    if order.way == "resume":
        return None if order.native_id is None else start.resume(order.native_id, order.prompt)
    return start.spawn(order.prompt)
