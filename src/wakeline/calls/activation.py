"""Bringing dormant agents back: what is allowed, what was tried, and what bridges say of what they start."""

from __future__ import annotations

from wakeline.calls.call import SAFE, Call, given, quote, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


def allow_activation(
    handle: str,
    allow: str,
    *,
    max_per_hour: int | None = None,
    concurrency: int | None = None,
    command: Sequence[str] | None = None,
    harness: str | None = None,
    host: str | None = None,
    cwd: str | None = None,
) -> Call:
    """Say what may be started for an agent that is dormant.  It replaces what was said before."""
    fields = given(
        allow=allow,
        max_per_hour=max_per_hour,
        concurrency=concurrency,
        command=command,
        harness=harness,
        host=host,
        cwd=cwd,
    )
    return Call("PUT", f"/v1/agents/{quote(handle)}/activation", body=fields, repeat=SAFE)


def get_mandate(handle: str) -> Call:
    """Show what may be started for an agent."""
    return read(f"/v1/agents/{quote(handle)}/activation")


def list_activations(
    *, handle: str | None = None, result: str | None = None, before: str | None = None, limit: int | None = None
) -> Call:
    """List attempts to bring dormant agents back, newest first, and why nothing is started."""
    return read("/v1/activations", handle=handle, result=result, before=before, limit=limit)


def get_activation(activation_id: str) -> Call:
    """Show one attempt, with what its process printed."""
    return read(f"/v1/activations/{quote(activation_id)}")


def stop_activation(activation_id: str) -> Call:
    """End what was started for an agent."""
    return Call("POST", f"/v1/activations/{quote(activation_id)}/stop", body={}, repeat=SAFE)


# -- bridges ----------------------------------------------------------------------------------------------------------


def claim_activations(bridge_id: str, *, limit: int | None = None) -> Call:
    """Take up what is to be started on the bridge's host, and hear what is already this bridge's."""
    return Call("POST", "/v1/bridge/activations/claim", body=given(bridge_id=bridge_id, limit=limit))


def start_activation(
    bridge_id: str,
    activation_id: str,
    fence: int,
    pid: int,
    *,
    pid_started_at: datetime | str | None = None,
    session: Mapping[str, object] | None = None,
) -> Call:
    """Say that a process runs, and in which session once it has said so."""
    fields = given(
        bridge_id=bridge_id,
        activation_id=activation_id,
        fence=fence,
        pid=pid,
        pid_started_at=pid_started_at,
        session=session,
    )
    return Call("POST", "/v1/bridge/activations/start", body=fields, repeat=SAFE)


def settle_activation(
    bridge_id: str,
    activation_id: str,
    fence: int,
    end: str,
    *,
    reason: str | None = None,
    exit_status: int | None = None,
    output: str | None = None,
    session: Mapping[str, object] | None = None,
) -> Call:
    """Say what came of a process."""
    fields = given(
        bridge_id=bridge_id,
        activation_id=activation_id,
        fence=fence,
        end=end,
        reason=reason,
        exit_status=exit_status,
        output=output,
        session=session,
    )
    return Call("POST", "/v1/bridge/activations/settle", body=fields, repeat=SAFE)
