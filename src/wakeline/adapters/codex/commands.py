"""The command lines of Codex that we use.  Arguments are lists and never reach a shell."""

from __future__ import annotations

from collections.abc import Sequence

CODEX = ("codex",)
# A turn that is begun before our tools are there cannot fetch anything: Codex waits for what it must have.
READY = ("-c", "mcp_servers.wakeline.required=true")


def queue(thread_id: str, text: str, codex: Sequence[str] = CODEX) -> list[str]:
    """Leave a message in a thread's queue, for a terminal that runs without the app server."""
    return [*codex, "queue", "--thread", thread_id, "--message", text]


def resume(thread_id: str, text: str, codex: Sequence[str] = CODEX) -> list[str]:
    """Activate a dormant thread for one turn.  It refuses a thread that is open anywhere, so it cannot disturb one.

    Nothing about approvals, sandbox or model is said: the thread keeps what its human gave it.
    """
    return [*codex, "exec", "resume", *READY, "--json", thread_id, text]


def begin(text: str, codex: Sequence[str] = CODEX) -> list[str]:
    """A new thread, for one turn."""
    return [*codex, "exec", *READY, "--json", text]
