"""Agents and humans, their tokens, and the grants and blocks between them."""

from __future__ import annotations

from datetime import timedelta

from msgspec import UnsetType

from wakeline import wire
from wakeline.core import policy
from wakeline.core.bridge import BRIDGE_ROLE
from wakeline.core.instant import plus, to_datetime
from wakeline.core.principal import HUMAN_ROLE, PARTICIPANT, Caller, Kind, parse_new_handle
from wakeline.core.queries import (
    BlockList,
    GrantList,
    PrincipalFor,
    PrincipalList,
    RefusalList,
    TokenList,
    UnreadCounts,
)
from wakeline.core.records import Token
from wakeline.errors import Forbidden, NotFound
from wakeline.flow.enrol import AddPrincipal, ChangePrincipal, IssueToken, RevokeToken
from wakeline.flow.permit import ChangeBlock, ChangeGrant
from wakeline.service import views
from wakeline.service.context import Context, check_claims, digest, to_instant
from wakeline.service.identity import Identity


class Principals:
    def __init__(self, context: Context, identity: Identity, token_life: timedelta) -> None:
        self._context = context
        self._identity = identity
        self._token_life = token_life

    # -- agents -------------------------------------------------------------------------------------------------------

    async def list(self, caller: Caller) -> wire.Agents:
        store, workspace_id = self._context.store, caller.workspace_id
        rows, counts = await store.read_together(
            PrincipalList(workspace_id), UnreadCounts(workspace_id, await store.now())
        )
        unread = dict(counts)
        return wire.Agents(agents=[views.agent(row, unread[row.handle]) for row in rows])

    async def add(self, caller: Caller, request: wire.AddAgent) -> wire.AgentAdded:
        check_claims(caller, request)
        handle = parse_new_handle(request.handle)
        human = Kind(request.kind) is Kind.HUMAN
        asked = [*([request.role] if request.role else []), *request.roles]
        roles = tuple(dict.fromkeys([HUMAN_ROLE, *asked] if human else asked or [PARTICIPANT]))
        if HUMAN_ROLE in roles and not human:
            raise Forbidden("ROLE_FORBIDDEN", "An agent cannot hold the role 'human'.", "Leave it out.", rule="human")
        token = await self._token(caller, handle, roles[0], request.token_seconds) if request.token else None
        key, payload = request.idempotency_key, digest(request)
        enrolled = await self._context.store.submit(
            AddPrincipal(
                caller, handle, request.kind, roles, request.display_name, token, idempotency_key=key, digest=payload
            )
        )
        view, token = views.agent(enrolled.principal), enrolled.token
        return wire.AgentAdded(
            **{name: getattr(view, name) for name in view.__struct_fields__},
            token=self._identity.sign(token, caller.workspace) if token else None,
            jti=token.jti if token else None,
            expires_at=to_datetime(token.expires_at) if token else None,
        )

    async def change(self, caller: Caller, handle: str, request: wire.ChangeAgent) -> wire.AgentView:
        check_claims(caller, request)
        roles = None if request.roles is None else tuple(dict.fromkeys(request.roles))
        until = request.do_not_disturb_until
        row = await self._context.store.submit(
            ChangePrincipal(
                caller,
                handle,
                roles,
                request.display_name,
                request.retired,
                request.quiet_hours,
                until if isinstance(until, UnsetType) else to_instant("do_not_disturb_until", until),
            )
        )
        self._identity.forget(handle=handle)
        return views.agent(row)

    # -- tokens -------------------------------------------------------------------------------------------------------

    async def _token(
        self,
        caller: Caller,
        handle: str,
        role: str,
        seconds: int | None,
        session: str | None = None,
        note: str | None = None,
        host: str | None = None,
    ) -> Token:
        now = await self._context.store.now()
        life = self._token_life if seconds is None else timedelta(seconds=seconds)
        return Token(
            self._context.new_id(),
            caller.workspace_id,
            handle,
            role,
            session,
            note,
            now,
            caller.handle,
            plus(now, life),
            host=host,
        )

    async def create_token(self, caller: Caller, request: wire.CreateToken) -> wire.TokenCreated:
        check_claims(caller, request)
        handle, host = request.handle, request.bridge
        found = await self._context.store.read(PrincipalFor(caller.workspace_id, handle))
        if not found:
            raise NotFound("AGENT_NOT_FOUND", f"There is no {handle} in this workspace.")
        role = request.role or (views.leading_role(found[0]) if host is None else BRIDGE_ROLE)
        token = await self._token(caller, handle, role, request.seconds, request.session_id, request.note, host)
        # The same claims make the same token, so a repeated call gets the first one again.
        token = await self._context.store.submit(IssueToken(caller, token, request.idempotency_key, digest(request)))
        return wire.TokenCreated(**views.token_fields(token), token=self._identity.sign(token, caller.workspace))

    async def list_tokens(self, caller: Caller, query: wire.TokensQuery) -> wire.TokenList:
        handle = query.handle or ("" if caller.is_human else caller.handle)
        if handle != caller.handle:
            policy.require_human(caller, "list another's tokens")
        rows = await self._context.store.read(TokenList(caller.workspace_id, handle))
        return wire.TokenList(tokens=[views.token(row) for row in rows])

    async def revoke_token(self, caller: Caller, jti: str) -> wire.TokenView:
        unknown = Token(jti, caller.workspace_id, caller.handle, "unknown", None, None, 0, caller.handle, 0)
        row = await self._context.store.submit(RevokeToken(caller, jti, unknown))
        self._identity.forget(jti=jti)
        return views.token(row)

    # -- grants and blocks --------------------------------------------------------------------------------------------

    async def change_grant(self, caller: Caller, request: wire.PutGrant, *, granted: bool) -> wire.GrantView:
        check_claims(caller, request)
        if request.scope == "CAN_READ_MEMORIES_OF":
            raise Forbidden("NOT_OFFERED", "There is no memory store here, so nothing to grant.", rule="not_offered")
        command = ChangeGrant(caller, request.scope, request.grantee, request.owner, granted)
        return views.grant(await self._context.store.submit(command))

    async def list_grants(self, caller: Caller) -> wire.Grants:
        party = "" if caller.reads_everything else caller.handle
        rows = await self._context.store.read(GrantList(caller.workspace_id, party))
        return wire.Grants(grants=[views.grant(row) for row in rows])

    async def change_block(self, caller: Caller, request: wire.PutBlock, *, blocked: bool) -> wire.BlockView:
        check_claims(caller, request)
        command = ChangeBlock(caller, request.blocker or caller.handle, request.blocked, blocked)
        return views.block(await self._context.store.submit(command))

    async def list_blocks(self, caller: Caller) -> wire.Blocks:
        party = "" if caller.reads_everything else caller.handle
        rows = await self._context.store.read(BlockList(caller.workspace_id, party))
        return wire.Blocks(blocks=[views.block(row) for row in rows])

    async def list_refusals(self, caller: Caller) -> wire.Refusals:
        if not caller.reads_everything:
            raise Forbidden(
                "ROLE_FORBIDDEN", "Only an auditor, a coordinator or a human reads the audit.", rule="audit"
            )
        rows = await self._context.store.read(RefusalList(caller.workspace_id, 500))
        return wire.Refusals(refusals=[views.refusal(row) for row in rows])
