"""Bring principals into a workspace, change what they hold, and issue and revoke their tokens."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from wakeline import wire
from wakeline.core import policy, quiet
from wakeline.core.bridge import BRIDGE_ROLE
from wakeline.core.instant import to_datetime
from wakeline.core.log import PRINCIPAL_STREAM
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import HUMAN_ROLE, Caller, Kind, Principal
from wakeline.core.records import Token
from wakeline.errors import Conflict, Forbidden, InvalidArgument, NotFound
from wakeline.flow import belong, once

_replace = msgspec.structs.replace


ADD = "add_agent"
ISSUE = "create_token"


class Enrolled(msgspec.Struct, frozen=True):
    principal: Principal
    token: Token | None


class AddPrincipal(msgspec.Struct, frozen=True):
    caller: Caller
    handle: str
    kind: str
    roles: tuple[str, ...]
    display_name: str | None
    token: Token | None
    provisioned: bool = False  # an external issuer vouched for it; no human asked
    idempotency_key: str | None = None
    digest: str = ""

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.update((self.caller.handle, self.handle))
        needs.role_threads_of.update((self.handle, role) for role in self.roles)
        if self.idempotency_key is not None:
            needs.idempotency.add((self.caller.handle, ADD, self.idempotency_key))

    def decide(self, picture: Picture) -> Enrolled:
        by, before = self.caller.handle, picture.principals.get(self.handle)
        if self.provisioned and before is not None:
            return Enrolled(before, None)
        if not self.provisioned:
            policy.admit(picture, self.caller)
            policy.require_human(self.caller, "add agents")
        if self.kind == Kind.HUMAN:
            policy.require_operator(self.caller, "add humans")
        # Only now: the answer holds a token, which is not for everybody who knows a key.
        earlier = once.earlier(picture, by, ADD, self.idempotency_key, self.digest)
        if earlier is not None:
            return msgspec.json.decode(earlier, type=Enrolled)
        if before is not None:
            raise Conflict("AGENT_EXISTS", f"{self.handle} exists already.", handle=self.handle)
        principal = Principal(
            self.workspace_id, self.handle, self.kind, " ".join(self.roles), self.display_name, picture.now, by
        )
        picture.put_principal(principal)
        belong.follow_roles(picture, principal)
        data = {"kind": self.kind, "roles": list(self.roles), "provisioned": self.provisioned}
        picture.append("agent.added", PRINCIPAL_STREAM + self.handle, 0, by, self.handle, data)
        if self.token is not None:
            _issue(picture, self.token)
        enrolled = Enrolled(principal, self.token)
        once.remember(picture, by, ADD, self.idempotency_key, self.digest, self.handle, enrolled)
        return enrolled


class ChangePrincipal(msgspec.Struct, frozen=True):
    caller: Caller
    handle: str
    roles: tuple[str, ...] | None = None
    display_name: str | None = None
    retired: bool | None = None
    quiet: wire.QuietHours | UnsetType | None = UNSET
    dnd_until: int | UnsetType | None = UNSET

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    @property
    def _is_own_rest(self) -> bool:
        """When to be left alone is everybody's own affair; all else is the human's."""
        said = self.quiet is not UNSET or self.dnd_until is not UNSET
        return (
            said and self.handle == self.caller.handle and (self.roles, self.display_name, self.retired) == (None,) * 3
        )

    def needs(self, needs: Needs) -> None:
        needs.handles.update((self.caller.handle, self.handle))
        needs.role_threads_of.update((self.handle, role) for role in (*(self.roles or ()), ""))

    def decide(self, picture: Picture) -> Principal:
        policy.admit(picture, self.caller)
        if not self._is_own_rest:
            policy.require_human(self.caller, "change agents")
        before = picture.principals.get(self.handle)
        if before is None:
            raise NotFound("AGENT_NOT_FOUND", f"There is no {self.handle} in this workspace.", handle=self.handle)
        if not self._is_own_rest:
            self._check_kind(before)
        changed = self._changed(before, picture.now)
        if changed != before:
            picture.put_principal(changed)
            belong.follow_roles(picture, changed)
            data = _change_data(changed)
            picture.append("agent.changed", PRINCIPAL_STREAM + self.handle, 0, self.caller.handle, self.handle, data)
        return changed

    def _check_kind(self, before: Principal) -> None:
        if before.kind == Kind.SYSTEM:
            raise Forbidden("ROLE_FORBIDDEN", "Nobody changes the system.", "Leave it as it is.", rule="system")
        if before.kind == Kind.HUMAN:
            policy.require_operator(self.caller, "change humans")
        elif HUMAN_ROLE in (self.roles or ()):
            raise Forbidden("ROLE_FORBIDDEN", "An agent cannot hold the role 'human'.", "Leave it out.", rule="human")
        if self.retired and self.handle == self.caller.handle:
            raise InvalidArgument("INVALID_ARGUMENT", "Nobody retires themselves.", "Ask another human.")

    def _changed(self, before: Principal, now: int) -> Principal:
        retired_at = before.retired_at
        if self.retired is not None:
            retired_at = (before.retired_at or now) if self.retired else None
        hours = self.quiet
        return _replace(
            before,
            roles=before.roles if self.roles is None else " ".join(_kept(before.kind, self.roles)),
            display_name=before.display_name if self.display_name is None else self.display_name,
            retired_at=retired_at,
            quiet=before.quiet if isinstance(hours, UnsetType) else None if hours is None else quiet.check(hours),
            dnd_until=before.dnd_until if isinstance(self.dnd_until, UnsetType) else self.dnd_until,
        )


def _change_data(row: Principal) -> dict[str, Any]:
    return {
        "roles": row.roles.split(),
        "retired": row.retired_at is not None,
        "quiet_hours": quiet.parse(row.quiet),
        "do_not_disturb_until": None if row.dnd_until is None else to_datetime(row.dnd_until),
    }


def _kept(kind: str, roles: tuple[str, ...]) -> tuple[str, ...]:
    """A human stays one, whatever else they are."""
    return tuple(dict.fromkeys((HUMAN_ROLE, *roles))) if kind == Kind.HUMAN else roles


class IssueToken(msgspec.Struct, frozen=True):
    caller: Caller
    token: Token
    idempotency_key: str | None = None
    digest: str = ""

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.update((self.caller.handle, self.token.handle))
        if self.idempotency_key is not None:
            needs.idempotency.add((self.caller.handle, ISSUE, self.idempotency_key))

    def decide(self, picture: Picture) -> Token:
        policy.admit(picture, self.caller)
        policy.require_human(self.caller, "issue tokens")
        by, key = self.caller.handle, self.idempotency_key
        principal = picture.principals.get(self.token.handle)
        if principal is None or principal.retired_at is not None:
            raise NotFound("AGENT_NOT_FOUND", f"There is no {self.token.handle} in this workspace.")
        self._check_bridge(principal)
        if principal.kind == Kind.HUMAN:
            policy.require_operator(self.caller, "issue a human's token")
        earlier = once.earlier(picture, by, ISSUE, key, self.digest)
        if earlier is not None:
            return msgspec.json.decode(earlier, type=Token)
        if principal.kind == Kind.AGENT and not principal.holds(self.token.role):
            raise Forbidden(
                "ROLE_FORBIDDEN",
                f"{principal.handle} does not hold the role {self.token.role}.",
                f"Give it first: 'wakeline agent role {principal.handle} {self.token.role}'.",
                rule="token_role",
            )
        _issue(picture, self.token)
        once.remember(picture, by, ISSUE, key, self.digest, self.token.jti, self.token)
        return self.token

    def _check_bridge(self, principal: Principal) -> None:
        """The system's own tokens are for bridges, and a bridge is nothing else."""
        token = self.token
        plain = (token.role, token.session_id) == (BRIDGE_ROLE, None)
        if (principal.kind == Kind.SYSTEM) != (token.host is not None) or (token.host is not None and not plain):
            raise Forbidden(
                "ROLE_FORBIDDEN",
                "A bridge's token is the system's, for one host, without a role or session.",
                "Make it with 'wakeline token create --bridge HOST'.",
                rule="system",
            )


class RevokeToken(msgspec.Struct, frozen=True):
    """Revoking an external issuer's token that was never seen here works too: its jti is refused from now on."""

    caller: Caller
    jti: str
    revoked: Token  # what to store when the jti is unknown

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.tokens.add(self.jti)

    def decide(self, picture: Picture) -> Token:
        policy.admit(picture, self.caller)
        token = picture.tokens.get(self.jti)
        if token is None:
            if not self.caller.is_human:
                raise NotFound("TOKEN_NOT_FOUND", f"There is no token {self.jti}.")
            token = _replace(self.revoked, issued_at=picture.now, expires_at=picture.now)
        elif token.handle != self.caller.handle:
            policy.require_human(self.caller, "revoke another's token")
        if token.workspace_id != self.workspace_id:
            raise NotFound("TOKEN_NOT_FOUND", f"There is no token {self.jti}.")
        if token.revoked_at is None:
            token = _replace(token, revoked_at=picture.now)
            picture.put_token(token)
            stream = PRINCIPAL_STREAM + token.handle
            picture.append("token.revoked", stream, 0, self.caller.handle, self.jti, {"handle": token.handle})
        return token


def _issue(picture: Picture, token: Token) -> None:
    picture.put_token(token)
    data = {"handle": token.handle, "role": token.role, "expires_at": to_datetime(token.expires_at), "note": token.note}
    if token.host is not None:
        data["host"] = token.host
    picture.append("token.issued", PRINCIPAL_STREAM + token.handle, 0, token.issued_by, token.jti, data)
