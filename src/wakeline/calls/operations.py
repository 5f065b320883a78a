"""The log, dead letters, workspaces and health."""

from __future__ import annotations

from wakeline.calls.call import SAFE, Call, given, quote, read

TYPE_CHECKING = False


# -- operations -------------------------------------------------------------------------------------------------------


def read_log(*, after: str | None = None, limit: int | None = None) -> Call:
    """Read the log after a position."""
    return read("/v1/log", after=after, limit=limit)


def stream_events(*, after: str | None = None) -> Call:
    """Open the stream of events after a position."""
    return read("/v1/events", after=after)


def list_dead_letters(*, sender: str | None = None, open: bool | None = None, limit: int | None = None) -> Call:  # noqa: A002 - the name on the wire
    """List what could not be brought to anybody."""
    return read("/v1/dead-letters", sender=sender, open=open, limit=limit)


def redrive(dead_letter_id: str) -> Call:
    """Post a dead letter again."""
    return Call("POST", f"/v1/dead-letters/{quote(dead_letter_id)}/redrive")


def list_workspaces() -> Call:
    """List the workspaces."""
    return read("/v1/workspaces")


def add_workspace(name: str) -> Call:
    """Add a workspace."""
    return Call("POST", "/v1/workspaces", body={"name": name})


def prune(*, older_than_seconds: int | None = None, keep: int | None = None) -> Call:
    """Remove old log rows and ended sessions now."""
    return Call("POST", "/v1/prune", body=given(older_than_seconds=older_than_seconds, keep=keep), repeat=SAFE)


def get_status() -> Call:
    """Show counts and positions."""
    return read("/v1/status")


def get_readiness() -> Call:
    """Ask whether the server can serve."""
    return read("/readyz")
