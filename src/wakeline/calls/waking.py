"""Sessions, wake subscriptions and deliveries."""

from __future__ import annotations

from wakeline.calls.call import SAFE, Call, given, quote, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from wakeline.calls.call import Clear


# -- sessions ---------------------------------------------------------------------------------------------------------


def heartbeat_session(  # noqa: PLR0913 - what a session may say of itself
    *,
    session_id: str | None = None,
    harness: str | None = None,
    harness_version: str | Clear | None = None,
    transport: str | Clear | None = None,
    native_id: str | Clear | None = None,
    host: str | Clear | None = None,
    cwd: str | Clear | None = None,
    pid: int | Clear | None = None,
    pid_started_at: datetime | str | Clear | None = None,
    wake_mode: str | None = None,
    replyable: bool | None = None,
    capabilities: Sequence[str] | None = None,
    levels: Mapping[str, str] | None = None,
    presence: str | None = None,
    active_turn_id: str | Clear | None = None,
    presence_source: str | None = None,
    context_tokens: int | Clear | None = None,
    context_limit: int | Clear | None = None,
    resumable: bool | None = None,
    task_id: str | Clear | None = None,
    branch: str | Clear | None = None,
) -> Call:
    """Say that a session is there and how it is, and hear of unread mail."""
    return Call("POST", "/v1/sessions/heartbeat", body=given(**locals()), repeat=SAFE)


def end_session(session_id: str) -> Call:
    """Say that a session has ended."""
    return Call("POST", f"/v1/sessions/{quote(session_id)}/end", body={}, repeat=SAFE)


def list_sessions(*, handle: str | None = None, ended: bool | None = None, limit: int | None = None) -> Call:
    """List sessions, the caller's own unless it reads everything."""
    return read("/v1/sessions", handle=handle, ended=ended, limit=limit)


def list_peers() -> Call:
    """Show who is there: each session of each principal, with its presence and unread mail."""
    return read("/v1/peers")


# -- waking -----------------------------------------------------------------------------------------------------------


def subscribe_wake(
    trigger: str,
    *,
    filters: Mapping[str, Any] | None = None,
    harness_target: str | None = None,
    harness_target_metadata: Mapping[str, Any] | None = None,
    mcp_connected: bool | None = None,
) -> Call:
    """Be woken by what happens; the same route again is the same subscription."""
    fields = given(
        trigger=trigger,
        filters=filters,
        harness_target=harness_target,
        harness_target_metadata=harness_target_metadata,
        mcp_connected=mcp_connected,
    )
    return Call("POST", "/v1/wake-subscriptions", body=fields, repeat=SAFE)


def list_wake_subscriptions(*, handle: str | None = None, after: str | None = None, limit: int | None = None) -> Call:
    """List wake subscriptions: one's own, and for a human everybody's."""
    return read("/v1/wake-subscriptions", handle=handle, after=after, limit=limit)


def get_wake_subscription(subscription_id: str) -> Call:
    """Show one wake subscription."""
    return read(f"/v1/wake-subscriptions/{quote(subscription_id)}")


def update_wake_subscription(
    subscription_id: str,
    *,
    trigger: str | None = None,
    filters: Mapping[str, Any] | None = None,
    harness_target: str | None = None,
    harness_target_metadata: Mapping[str, Any] | None = None,
) -> Call:
    """Change what wakes, or by which route."""
    fields = given(
        trigger=trigger,
        filters=filters,
        harness_target=harness_target,
        harness_target_metadata=harness_target_metadata,
    )
    return Call("PATCH", f"/v1/wake-subscriptions/{quote(subscription_id)}", body=fields, repeat=SAFE)


def unsubscribe_wake(subscription_id: str) -> Call:
    """Remove a wake subscription."""
    return Call("DELETE", f"/v1/wake-subscriptions/{quote(subscription_id)}", repeat=SAFE)


def resume_wake_subscription(subscription_id: str) -> Call:
    """Try a degraded route again."""
    return Call("POST", f"/v1/wake-subscriptions/{quote(subscription_id)}/resume", repeat=SAFE)


def rotate_wake_key(subscription_id: str) -> Call:
    """Make a new signing key; the old one signs beside it for a while."""
    return Call("POST", f"/v1/wake-subscriptions/{quote(subscription_id)}/rotate-key")


def manage_wake_subscription(action: str, **arguments: Any) -> Call:
    """Do any of it through the wake protocol's one call, with its camelCase arguments."""
    return Call("POST", "/v1/manage-wake-subscription", body={"action": action, **arguments})


def stream_wakes(*, events: Iterable[str] | None = None) -> Call:
    """Open the stream of wakes: hints for this principal's connections, never the mail itself."""
    return read("/v1/wakes", events=None if events is None else ",".join(events))


def list_deliveries(
    *,
    handle: str | None = None,
    subscription_id: str | None = None,
    outcome: str | None = None,
    before: str | None = None,
    limit: int | None = None,
) -> Call:
    """List wakes that were brought out, newest first."""
    return read(
        "/v1/deliveries", handle=handle, subscription_id=subscription_id, outcome=outcome, before=before, limit=limit
    )


def get_delivery(delivery_id: str) -> Call:
    """Show a delivery with each of its steps."""
    return read(f"/v1/deliveries/{quote(delivery_id)}")


def retry_delivery(delivery_id: str) -> Call:
    """Send again what did not arrive."""
    return Call("POST", f"/v1/deliveries/{quote(delivery_id)}/retry")


def resync(subscription_id: str, since_log_id: int, *, epoch: str | None = None) -> Call:
    """Replay what is unread since a log id."""
    path = f"/v1/wake-subscriptions/{quote(subscription_id)}/resync"
    return Call("POST", path, body=given(since_log_id=since_log_id, epoch=epoch))


# -- proofs -----------------------------------------------------------------------------------------------------------


def record_proof(harness: str, transport: str, version: str, verdicts: Sequence[Mapping[str, Any]]) -> Call:
    """Keep what a probe of a harness found.  The newest finding counts."""
    fields = {"harness": harness, "transport": transport, "version": version, "verdicts": list(verdicts)}
    return Call("POST", "/v1/proofs", body=fields, repeat=SAFE)


def list_proofs() -> Call:
    """Show what was proven of ways into harnesses."""
    return read("/v1/proofs")


# -- bridges ----------------------------------------------------------------------------------------------------------


def attend_bridge(
    bridge_id: str, version: str, *, transports: Sequence[str] | None = None, started: bool | None = None
) -> Call:
    """Take or renew the lease on the bridge's host."""
    fields = given(bridge_id=bridge_id, version=version, transports=transports, started=started)
    return Call("POST", "/v1/bridge/attend", body=fields, repeat=SAFE)


def leave_bridge(bridge_id: str) -> Call:
    """Give the lease on the bridge's host back."""
    return Call("POST", "/v1/bridge/leave", body={"bridge_id": bridge_id}, repeat=SAFE)


def list_bridge_sessions() -> Call:
    """List the sessions of the bridge's host."""
    return read("/v1/bridge/sessions")


def claim_rings(bridge_id: str, *, limit: int | None = None) -> Call:
    """Take up what is to be rung on the bridge's host."""
    return Call("POST", "/v1/bridge/claim", body=given(bridge_id=bridge_id, limit=limit))


def settle_ring(
    bridge_id: str, delivery_id: str, fence: int, result: str, *, reason: str | None = None, detail: str | None = None
) -> Call:
    """Say what came of a ring.  The fence makes a second sending change nothing."""
    fields = given(
        bridge_id=bridge_id, delivery_id=delivery_id, fence=fence, result=result, reason=reason, detail=detail
    )
    return Call("POST", "/v1/bridge/settle", body=fields, repeat=SAFE)


def report_observations(bridge_id: str, observations: Sequence[Mapping[str, Any]]) -> Call:
    """Say what was seen of the host's sessions; evidence may come twice."""
    fields = {"bridge_id": bridge_id, "observations": list(observations)}
    return Call("POST", "/v1/bridge/report", body=fields, repeat=SAFE)


def announce_turn(
    bridge_id: str, session_id: str, *, turn_id: str | None = None, shown: Sequence[str] | None = None
) -> Call:
    """Hear what to tell a session in the turn that it begins."""
    fields = given(bridge_id=bridge_id, session_id=session_id, turn_id=turn_id, shown=shown)
    return Call("POST", "/v1/bridge/announce", body=fields)
