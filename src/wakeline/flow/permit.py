"""Grants and blocks between two principals."""

from __future__ import annotations

import msgspec

from wakeline.core import policy
from wakeline.core.log import PRINCIPAL_STREAM
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.records import Block, Grant
from wakeline.core.row_data import GRANT_ADDED, GrantAdded
from wakeline.errors import Forbidden, NotFound

_replace = msgspec.structs.replace


class _Pair(msgspec.Struct, frozen=True):
    caller: Caller

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id


def _require_parties(picture: Picture, *handles: str) -> None:
    for handle in handles:
        if handle not in picture.principals:
            raise NotFound("AGENT_NOT_FOUND", f"There is no {handle} in this workspace.", handle=handle)


class ChangeGrant(_Pair, frozen=True):
    scope: str
    grantee: str
    owner: str
    granted: bool

    def needs(self, needs: Needs) -> None:
        needs.handles.update((self.caller.handle, self.grantee, self.owner))
        needs.senders.add(self.grantee)

    def decide(self, picture: Picture) -> Grant:
        policy.admit(picture, self.caller)
        policy.require_writer(self.caller)
        _require_parties(picture, self.grantee, self.owner)
        if self.caller.handle != self.owner:
            policy.require_human(self.caller, "change another's grants")
        before = picture.grants.get((self.scope, self.grantee, self.owner))
        held = before is not None and before.revoked_at is None
        if before is None or (held is False and not self.granted):
            if not self.granted:
                raise NotFound("GRANT_NOT_FOUND", f"{self.grantee} holds no {self.scope} of {self.owner}.")
        elif held == self.granted:
            return before
        grant = Grant(self.workspace_id, self.scope, self.grantee, self.owner, self.caller.handle, picture.now)
        if not self.granted:
            grant = _replace(grant, revoked_at=picture.now)
        picture.put_grant(grant)
        kind = GRANT_ADDED if self.granted else "grant.removed"
        data = GrantAdded(scope=self.scope, grantee=self.grantee, owner=self.owner).data()
        picture.append(kind, PRINCIPAL_STREAM + self.grantee, 0, self.caller.handle, self.owner, data)
        return grant


class ChangeBlock(_Pair, frozen=True):
    blocker: str
    blocked: str
    set: bool

    def needs(self, needs: Needs) -> None:
        needs.handles.update((self.caller.handle, self.blocker, self.blocked))
        needs.senders.add(self.blocked)

    def decide(self, picture: Picture) -> Block:
        policy.admit(picture, self.caller)
        policy.require_writer(self.caller)
        _require_parties(picture, self.blocker, self.blocked)
        if self.caller.handle != self.blocker:
            policy.require_human(self.caller, "change another's blocks")
        if picture.principals[self.blocked].kind == "human" and not self.caller.is_human:
            raise Forbidden("ROLE_FORBIDDEN", "An agent cannot block a human.", "Ask the human.", rule="block_human")
        before = picture.blocks.get((self.blocker, self.blocked))
        held = before is not None and before.lifted_at is None
        if not held and not self.set:
            raise NotFound("BLOCK_NOT_FOUND", f"{self.blocker} does not block {self.blocked}.")
        if before is not None and held == self.set:
            return before
        block = Block(self.workspace_id, self.blocker, self.blocked, self.caller.handle, picture.now)
        if not self.set:
            block = _replace(block, lifted_at=picture.now)
        picture.put_block(block)
        kind = "block.set" if self.set else "block.lifted"
        data = {"blocker": self.blocker, "blocked": self.blocked}
        # In the blocker's own stream: who is blocked learns it when it matters, not from the log.
        picture.append(kind, PRINCIPAL_STREAM + self.blocker, 0, self.caller.handle, self.blocked, data)
        return block
