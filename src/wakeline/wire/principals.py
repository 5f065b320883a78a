"""Agents, tokens, grants, blocks and refusals on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from wakeline.wire.common import Answer, Handle, Query, Request, Role, Scope


class AddAgent(Request):
    handle: Handle
    role: Role | None = None
    roles: Annotated[list[Role], Meta(max_length=16)] = []
    kind: Literal["agent", "human"] = "agent"
    display_name: Annotated[str, Meta(max_length=200)] | None = None
    token: bool = True
    token_seconds: Annotated[int, Meta(ge=1, le=315_360_000)] | None = None


class AgentView(Answer):
    handle: str
    kind: str
    role: str
    roles: list[str]
    display_name: str | None
    created_at: datetime
    retired_at: datetime | None = None
    unread: int | UnsetType = UNSET


class AgentAdded(AgentView):
    token: str | None = None
    jti: str | None = None
    expires_at: datetime | None = None


class ChangeAgent(Request):
    roles: Annotated[list[Role], Meta(min_length=1, max_length=16)] | None = None
    display_name: Annotated[str, Meta(max_length=200)] | None = None
    retired: bool | None = None


class Agents(Answer):
    agents: list[AgentView]


class CreateToken(Request):
    handle: Handle
    role: Role | None = None
    seconds: Annotated[int, Meta(ge=1, le=315_360_000)] | None = None
    session_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    note: Annotated[str, Meta(max_length=200)] | None = None


class TokenView(Answer):
    jti: str
    handle: str
    role: str
    session_id: str | None
    note: str | None
    issued_at: datetime
    issued_by: str
    expires_at: datetime
    revoked_at: datetime | None


class TokenCreated(TokenView):
    token: str


class TokensQuery(Query):
    handle: Handle | None = None


class TokenList(Answer):
    tokens: list[TokenView]


class PutGrant(Request):
    scope: Scope
    grantee: Handle
    owner: Handle


class GrantView(Answer):
    scope: str
    grantee: str
    owner: str
    granted_by: str
    created_at: datetime


class Grants(Answer):
    grants: list[GrantView]


class PutBlock(Request):
    blocked: Handle
    blocker: Handle | None = None


class BlockView(Answer):
    blocker: str
    blocked: str
    created_by: str
    created_at: datetime


class Blocks(Answer):
    blocks: list[BlockView]


class RefusalView(Answer):
    handle: str
    rule: str
    minute: datetime
    count: int
    last_message: str


class Refusals(Answer):
    refusals: list[RefusalView]
