"""How a failure ends a command: what is said on stderr, and the exit code.  Only a failing command imports this."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import Any

from wakeline.errors import WakelineError
from wakeline.faces.cli import commands
from wakeline.faces.cli.output import encode, to_toon
from wakeline.faces.cli.text import now, safe

_BY_STATUS = {
    401: commands.NOT_ALLOWED,
    403: commands.NOT_ALLOWED,
    404: commands.NOT_FOUND,
    503: commands.UNAVAILABLE,
}


def report(error: Exception, form: str) -> int:
    """Say what went wrong and answer the exit code.  What is not one of our errors is a bug and rises."""
    if isinstance(error, BrokenPipeError):  # the reader of our output has gone, which is its right
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return commands.FAILED
    if not isinstance(error, WakelineError):
        raise error
    sys.stdout.flush()
    sys.stderr.write(f"{_render(error, form)}\n")
    return exit_code(error)


def exit_code(error: WakelineError) -> int:
    return commands.USAGE if error.code == "USAGE" else _BY_STATUS.get(error.status, commands.FAILED)


def _render(error: WakelineError, form: str) -> str:
    if form == "human":
        hint = f"\nhint: {safe(error.hint)}" if error.hint else ""
        return f"error {safe(error.code)}: {safe(error.message)}{hint}"
    return to_toon(envelope(error)) if form == "toon" else encode(envelope(error))


def envelope(error: WakelineError) -> dict[str, Any]:
    """The same envelope as on every face, also for what never reached the server."""
    details = dict(error.details)
    request_id = details.pop("request_id", None)
    body = {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "details": details,
        "retryable": error.retryable,
    }
    occurred_at = datetime.fromtimestamp(now(), UTC).isoformat().replace("+00:00", "Z")
    return {"error": body, "request_id": request_id, "occurred_at": occurred_at}
