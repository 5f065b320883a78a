"""Principals, their tokens, and what they may do to each other."""

from __future__ import annotations

from wakeline.calls.call import KEYED, SAFE, Call, given, quote, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from wakeline.calls.call import Clear


# -- identity and policy ----------------------------------------------------------------------------------------------


def list_agents() -> Call:
    """List the agents and humans of the workspace."""
    return read("/v1/agents")


def add_agent(
    handle: str,
    *,
    roles: Sequence[str] | None = None,
    kind: str | None = None,
    display_name: str | None = None,
    token: bool | None = None,
    token_seconds: int | None = None,
    idempotency_key: str | None = None,
) -> Call:
    """Add an agent or a human, with a first token."""
    fields = given(
        handle=handle,
        roles=roles,
        kind=kind,
        display_name=display_name,
        token=token,
        token_seconds=token_seconds,
        idempotency_key=idempotency_key,
    )
    return Call("POST", "/v1/agents", body=fields, repeat=KEYED)


def change_agent(
    handle: str,
    *,
    roles: Sequence[str] | None = None,
    display_name: str | None = None,
    retired: bool | None = None,
    quiet_hours: Mapping[str, str] | Clear | None = None,
    do_not_disturb_until: datetime | str | Clear | None = None,
) -> Call:
    """Change an agent's roles or name, when to leave it alone, or retire it."""
    fields = given(
        roles=roles,
        display_name=display_name,
        retired=retired,
        quiet_hours=quiet_hours,
        do_not_disturb_until=do_not_disturb_until,
    )
    return Call("PATCH", f"/v1/agents/{quote(handle)}", body=fields, repeat=SAFE)


def create_token(
    handle: str,
    *,
    bridge: str | None = None,
    role: str | None = None,
    seconds: int | None = None,
    session_id: str | None = None,
    note: str | None = None,
    idempotency_key: str | None = None,
) -> Call:
    """Make a token for an agent or a human, or, as @system, for the bridge of a host."""
    fields = given(
        handle=handle,
        bridge=bridge,
        role=role,
        seconds=seconds,
        session_id=session_id,
        note=note,
        idempotency_key=idempotency_key,
    )
    return Call("POST", "/v1/tokens", body=fields, repeat=KEYED)


def list_tokens(*, handle: str | None = None) -> Call:
    """List tokens, never their secret part."""
    return read("/v1/tokens", handle=handle)


def revoke_token(jti: str) -> Call:
    """Revoke a token."""
    return Call("DELETE", f"/v1/tokens/{quote(jti)}", repeat=SAFE)


def put_grant(scope: str, grantee: str, owner: str) -> Call:
    """Allow `grantee` something about `owner`."""
    return Call("POST", "/v1/grants", body={"scope": scope, "grantee": grantee, "owner": owner}, repeat=SAFE)


def remove_grant(scope: str, grantee: str, owner: str) -> Call:
    """Take a grant away."""
    return Call("DELETE", "/v1/grants", body={"scope": scope, "grantee": grantee, "owner": owner})


def list_grants() -> Call:
    """List the grants."""
    return read("/v1/grants")


def put_block(blocked: str, *, blocker: str | None = None) -> Call:
    """Stop somebody's mail to `blocker`, by default the caller."""
    return Call("POST", "/v1/blocks", body=given(blocked=blocked, blocker=blocker), repeat=SAFE)


def remove_block(blocked: str, *, blocker: str | None = None) -> Call:
    """Lift a block."""
    return Call("DELETE", "/v1/blocks", body=given(blocked=blocked, blocker=blocker))


def list_blocks() -> Call:
    """List the blocks."""
    return read("/v1/blocks")


def list_refusals() -> Call:
    """List what policy has refused, counted per principal, rule and minute."""
    return read("/v1/refusals")


def whoami() -> Call:
    """Say who the caller is to the server."""
    return read("/v1/whoami")
