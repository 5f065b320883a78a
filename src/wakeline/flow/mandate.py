"""A human says what may be started for an agent, and how often.  Saying it again lifts a crash-loop stop."""

from __future__ import annotations

import msgspec

from wakeline.core import policy
from wakeline.core.activation import ActivationRules, Allowed, Mandate, undisturbed
from wakeline.core.launch import refuse_bypass
from wakeline.core.log import PRINCIPAL_STREAM
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller, Kind
from wakeline.errors import Forbidden, NotFound

_encode = msgspec.json.Encoder().encode
PER_HOUR, CONCURRENCY = 4, 1


class AllowActivation(msgspec.Struct, frozen=True):
    caller: Caller
    handle: str
    allow: str
    max_per_hour: int | None
    concurrency: int | None
    command: tuple[str, ...] | None
    harness: str | None
    host: str | None
    cwd: str | None
    rules: ActivationRules

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.update((self.caller.handle, self.handle))
        needs.mandates.add(self.handle)

    def decide(self, picture: Picture) -> Mandate:
        policy.admit(picture, self.caller)
        policy.require_human(self.caller, "allow processes to be started for an agent")
        agent = picture.principals.get(self.handle)
        if agent is None or agent.kind != Kind.AGENT or agent.retired_at is not None:
            raise NotFound("AGENT_NOT_FOUND", f"There is no agent {self.handle} in this workspace.", handle=self.handle)
        refuse_bypass(self.command or ())
        mandate = Mandate(
            self.workspace_id,
            self.handle,
            self.allow,
            self._within("max_per_hour", self.max_per_hour, PER_HOUR, self.rules.activation_per_hour),
            self._within("concurrency", self.concurrency, CONCURRENCY, self.rules.activation_concurrency),
            None if self.command is None else _encode(self.command).decode(),
            self.harness,
            self.host,
            self.cwd,
            self.caller.handle,
            picture.now,
        )
        picture.put_mandate(mandate)
        self._begin_again(picture)
        data = {"allow": self.allow, "max_per_hour": mandate.max_per_hour, "concurrency": mandate.concurrency}
        stream = PRINCIPAL_STREAM + self.handle
        picture.append("activation.allowed", stream, 0, self.caller.handle, self.handle, data)
        return mandate

    def _begin_again(self, picture: Picture) -> None:
        before = picture.dormancies.get(self.handle)
        if before is not None and self.allow != Allowed.NONE:
            fresh = undisturbed(self.workspace_id, self.handle)
            after = msgspec.structs.replace(
                fresh,
                message_id=before.message_id,
                tries=before.tries,
                unreachable=before.unreachable,
                updated_at=picture.now,
            )
            picture.put_dormancy(after)

    def _within(self, name: str, said: int | None, default: int, limit: int) -> int:
        if said is None:
            return min(default, limit)
        if said > limit:
            raise Forbidden(
                "ACTIVATION_LIMIT", f"'{name}' is at most {limit} here.", rule="activation_limit", limit=limit
            )
        return said
