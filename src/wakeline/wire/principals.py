"""Agents, tokens, grants, blocks and refusals on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from wakeline.wire.common import Answer, Handle, Instant, Key, Moment, Query, Request, Role, Scope

CLOCK_PATTERN = r"^([01][0-9]|2[0-3]):[0-5][0-9]$(?!\n)"
TimeZone = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_+/-]{1,64}$(?!\n)", examples=["Europe/Berlin"])]


class QuietHours(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Daily hours without wakes, by the clock of a time zone; they may go across midnight."""

    from_: Annotated[str, Meta(pattern=CLOCK_PATTERN, examples=["22:00"])] = msgspec.field(name="from")
    until: Annotated[str, Meta(pattern=CLOCK_PATTERN, examples=["07:00"])]
    time_zone: TimeZone


class AddAgent(Request, frozen=True):
    handle: Handle
    role: Role | None = None
    roles: Annotated[list[Role], Meta(max_length=16)] = []
    kind: Literal["agent", "human"] = "agent"
    display_name: Annotated[str, Meta(max_length=200)] | None = None
    token: bool = True
    token_seconds: Annotated[int, Meta(ge=1, le=315_360_000)] | None = None
    idempotency_key: Key | None = None


class AgentView(Answer, frozen=True):
    handle: str
    kind: str
    role: str
    roles: list[str]
    display_name: str | None
    created_at: Instant
    retired_at: Instant | None = None
    unread: int | UnsetType = UNSET  # in the list only
    quiet_hours: QuietHours | None = None
    do_not_disturb_until: Instant | None = None


class AgentAdded(AgentView, frozen=True):
    token: str | None = None
    jti: str | None = None
    expires_at: Instant | None = None


class ChangeAgent(Request, frozen=True):
    roles: Annotated[list[Role], Meta(min_length=1, max_length=16)] | None = None
    display_name: Annotated[str, Meta(max_length=200)] | None = None
    retired: bool | None = None
    quiet_hours: QuietHours | UnsetType | None = UNSET
    do_not_disturb_until: Moment | UnsetType | None = UNSET


class Agents(Answer, frozen=True):
    agents: list[AgentView]


class CreateToken(Request, frozen=True):
    """For an agent or a human; with `bridge`, for the bridge of this host, which acts as @system."""

    handle: Handle
    bridge: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    role: Role | None = None
    seconds: Annotated[int, Meta(ge=1, le=315_360_000)] | None = None
    session_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    note: Annotated[str, Meta(max_length=200)] | None = None
    idempotency_key: Key | None = None


class TokenView(Answer, frozen=True):
    jti: str
    handle: str
    role: str
    session_id: str | None
    bridge: str | None
    note: str | None
    issued_at: Instant
    issued_by: str
    expires_at: Instant
    revoked_at: Instant | None


class TokenCreated(TokenView, frozen=True):
    token: str


class TokensQuery(Query, frozen=True):
    handle: Handle | None = None


class TokenList(Answer, frozen=True):
    tokens: list[TokenView]


class PutGrant(Request, frozen=True):
    scope: Scope
    grantee: Handle
    owner: Handle


class GrantView(Answer, frozen=True):
    scope: str
    grantee: str
    owner: str
    granted_by: str
    created_at: Instant


class Grants(Answer, frozen=True):
    grants: list[GrantView]


class PutBlock(Request, frozen=True):
    blocked: Handle
    blocker: Handle | None = None


class BlockView(Answer, frozen=True):
    blocker: str
    blocked: str
    created_by: str
    created_at: Instant


class Blocks(Answer, frozen=True):
    blocks: list[BlockView]


class RefusalView(Answer, frozen=True):
    handle: str
    rule: str
    minute: Instant
    count: int
    last_message: str


class Refusals(Answer, frozen=True):
    refusals: list[RefusalView]
