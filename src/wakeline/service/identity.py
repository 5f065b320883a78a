"""Who is calling: sign tokens, verify them once, remember the verdict until it expires or is revoked.

The verdict carries only what was verified.  A local token needs a valid signature by one of our keys, a row that is not
revoked, and a principal that is still there; an external one needs a key of the configured issuer instead of the row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from wakeline import wire
from wakeline.core.bridge import BRIDGE_ROLE
from wakeline.core.instant import SECOND
from wakeline.core.log import LogEntry, Workspace
from wakeline.core.principal import HUMAN_ROLE, PARTICIPANT, RESERVED, Caller, Kind, Principal
from wakeline.core.queries import AllWorkspaces, PrincipalFor, TokenFor
from wakeline.core.records import Token
from wakeline.core.store import Store
from wakeline.errors import Forbidden, NotFound, Unauthorized
from wakeline.flow.enrol import AddPrincipal

ISSUER = "wakeline"
LOCAL_ALGORITHM = "EdDSA"
EXTERNAL_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
MAX_REMEMBERED = 50_000
MAX_TOKEN_LENGTH = 8_192
CLOCK_SKEW_SECONDS = 60  # for `iat`: another node may be ahead of us; expiry is checked again without it
_KEYS_FRESH = 5 * SECOND


class Claims(msgspec.Struct, frozen=True):
    agent_id: wire.Handle
    workspace_id: str
    iat: float
    exp: float
    jti: wire.TokenId
    role: wire.Role = PARTICIPANT
    session_id: wire.Session | None = None


class External(msgspec.Struct, frozen=True):
    """An outside issuer: how to find its key, and what its tokens must say."""

    find_key: Callable[[str], Awaitable[Any]]  # token -> key; raises Unauthorized
    issuer: str | None
    audience: str | None
    auto_provision: bool


class Identity:
    def __init__(
        self,
        store: Store,
        clock: Callable[[], int],
        keys: Callable[[], Awaitable[dict[str, Ed25519PublicKey]]],
        signing: tuple[str, Ed25519PrivateKey],
        *,
        human: str,
        default_workspace: str,
        external: External | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._load_keys = keys
        self._keys: dict[str, Ed25519PublicKey] = {}
        self._keys_loaded_at = 0
        self._signing = signing
        self._human = human
        self._default_workspace = default_workspace
        self._external = external
        self._remembered: dict[str, Caller] = {}
        self._forgotten = 0
        self._workspaces: dict[str, Workspace] = {}
        self._operators: dict[str, Caller] = {}

    # -- signing ------------------------------------------------------------------------------------------------------

    def sign(self, token: Token, workspace: str) -> str:
        kid, key = self._signing
        claims: dict[str, Any] = {
            "iss": ISSUER,
            "agent_id": token.handle,
            "workspace_id": workspace,
            "role": token.role,
            "iat": token.issued_at // SECOND,
            "exp": -(-token.expires_at // SECOND),
            "jti": token.jti,
        }
        if token.session_id is not None:
            claims["session_id"] = token.session_id
        if token.host is not None:
            claims["host"] = token.host
        return jwt.encode(claims, key, algorithm=LOCAL_ALGORITHM, headers={"kid": kid})

    # -- verifying ----------------------------------------------------------------------------------------------------

    async def operator(self, workspace: str | None) -> Caller:
        """The owner of the data directory, on the machine's own socket."""
        name = workspace or self._default_workspace
        known = self._operators.get(name)
        if known is None:
            found = await self._workspace(name)
            if found is None:
                raise NotFound("WORKSPACE_NOT_FOUND", f"There is no workspace {name}.")
            known = Caller(found.workspace_id, name, self._human, Kind.HUMAN, HUMAN_ROLE, operator=True)
            self._operators[name] = known
        return known

    def remembered(self, token: str) -> Caller | None:
        caller = self._remembered.get(token)
        if caller is not None and caller.expires_at is not None and caller.expires_at <= self._clock():
            del self._remembered[token]
            raise Unauthorized("TOKEN_EXPIRED", "The token has expired.")
        return caller

    async def verify(self, token: str) -> Caller:
        caller = self.remembered(token)
        if caller is None:
            forgotten = self._forgotten
            caller = await self._verify(token)
            if forgotten == self._forgotten:  # else it may have been revoked since we looked
                self._remember(token, caller)
        return caller

    def _remember(self, token: str, caller: Caller) -> None:
        if len(self._remembered) >= MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[token] = caller

    async def _verify(self, token: str) -> Caller:
        if len(token) > MAX_TOKEN_LENGTH:
            raise Unauthorized("TOKEN_INVALID", "The token is too long to be one of ours.")
        kid, claims = await self._decode(token)
        local = kid is None
        workspace = await self._workspace(claims.workspace_id)
        if workspace is None:
            raise Forbidden("WORKSPACE_MISMATCH", "The token's workspace does not exist here.", rule="workspace")
        row = await self._row(claims, workspace, must_exist=local)
        principal = await self._principal(claims, workspace, local=local)
        host = row.host if row is not None and local else None
        role = claims.role if principal.holds(claims.role) else PARTICIPANT
        if principal.kind == Kind.HUMAN:
            role = HUMAN_ROLE
        elif host is not None:
            role = BRIDGE_ROLE
        # The row knows the very microsecond; the claim is rounded up to a second.
        expires_at = row.expires_at if row is not None and local else int(claims.exp * SECOND)
        if expires_at <= self._clock():
            raise Unauthorized("TOKEN_EXPIRED", "The token has expired.")
        return Caller(
            workspace.workspace_id,
            workspace.name,
            principal.handle,
            principal.kind,
            role,
            jti=claims.jti,
            session_id=claims.session_id,
            expires_at=expires_at,
            kid=kid,
            host=host,
        )

    async def _decode(self, token: str) -> tuple[str | None, Claims]:
        """What the token says, and by which key of the outside issuer; None: by one of ours."""
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            local = await self._local_key(kid) if isinstance(kid, str) else None
            if local is not None:
                claims = jwt.decode(
                    token,
                    local,
                    algorithms=[LOCAL_ALGORITHM],
                    issuer=ISSUER,
                    leeway=CLOCK_SKEW_SECONDS,
                    options={"require": ["exp", "iat", "jti"]},
                )
            else:
                claims = await self._decode_external(token)
            return None if local is not None else kid, _parse(claims)
        except jwt.ExpiredSignatureError as error:
            raise Unauthorized("TOKEN_EXPIRED", "The token has expired.") from error
        except (jwt.PyJWTError, msgspec.ValidationError, ValueError) as error:
            raise Unauthorized("TOKEN_INVALID", "The token is not one that this server trusts.") from error

    async def _local_key(self, kid: str) -> Ed25519PublicKey | None:
        """Another node may have made a key since we looked; we look again, but not for every stranger's token."""
        if kid not in self._keys and self._clock() - self._keys_loaded_at > _KEYS_FRESH:
            self._keys = await self._load_keys()
            self._keys_loaded_at = self._clock()  # only now: who asks meanwhile loads them too, and is not refused
        return self._keys.get(kid)

    async def _decode_external(self, token: str) -> dict[str, Any]:
        if self._external is None:
            raise Unauthorized("TOKEN_INVALID", "The token was not signed by this server.")
        key = await self._external.find_key(token)
        audience = self._external.audience
        return jwt.decode(
            token,
            key,
            algorithms=EXTERNAL_ALGORITHMS,
            issuer=self._external.issuer,
            audience=audience,
            leeway=CLOCK_SKEW_SECONDS,
            options={"require": ["exp", "iat", "jti"], "verify_aud": audience is not None},
        )

    async def _row(self, claims: Claims, workspace: Workspace, *, must_exist: bool) -> Token | None:
        rows = await self._store.read(TokenFor(claims.jti))
        row = rows[0] if rows and rows[0].workspace_id == workspace.workspace_id else None
        if row is None and must_exist:
            raise Unauthorized("TOKEN_INVALID", "The token is not known here.")
        if row is not None and row.revoked_at is not None:
            raise Unauthorized("TOKEN_REVOKED", "The token was revoked.")
        return row

    async def _principal(self, claims: Claims, workspace: Workspace, *, local: bool) -> Principal:
        rows = await self._store.read(PrincipalFor(workspace.workspace_id, claims.agent_id))
        external = self._external
        known = rows or claims.agent_id in RESERVED
        if not known and not local and external is not None and external.auto_provision:
            system = Caller(workspace.workspace_id, workspace.name, "@system", Kind.SYSTEM, "system")
            roles = (claims.role if claims.role != HUMAN_ROLE else PARTICIPANT,)
            added = AddPrincipal(system, claims.agent_id, Kind.AGENT, roles, None, None, provisioned=True)
            rows = [(await self._store.submit(added)).principal]
        if not rows or rows[0].retired_at is not None:
            raise Unauthorized("TOKEN_INVALID", "The token's agent is not a principal of this workspace.")
        if rows[0].kind != Kind.AGENT and not local:
            raise Unauthorized("TOKEN_INVALID", "An outside issuer speaks for agents only.")
        return rows[0]

    async def _workspace(self, name: str) -> Workspace | None:
        if name not in self._workspaces:
            self._workspaces = {row.name: row for row in await self._store.read(AllWorkspaces())}
        return self._workspaces.get(name)

    # -- forgetting ---------------------------------------------------------------------------------------------------

    def forget(
        self,
        *,
        jti: str | None = None,
        handle: str | None = None,
        kids: frozenset[str | None] = frozenset(),
        workspace_id: int | None = None,
    ) -> None:
        self._forgotten += 1
        self._remembered = {
            token: caller
            for token, caller in self._remembered.items()
            if caller.jti != jti
            and caller.handle != handle
            and caller.kid not in kids
            and caller.workspace_id != workspace_id
        }

    def hear(self, row: LogEntry) -> None:
        """Another node may have revoked a token or changed a principal: the log tells."""
        if row.kind == "token.revoked":
            self.forget(jti=row.subject)
        elif row.kind == "agent.changed":
            self.forget(handle=row.subject)


def _parse(claims: dict[str, Any]) -> Claims:
    return msgspec.convert(claims, Claims)
