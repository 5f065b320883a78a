"""A probe found out what a way into a harness can do: keep it, and let what runs that way be reached by it."""

from __future__ import annotations

import msgspec

from wakeline.core import policy
from wakeline.core.level import Proof, admitted, route_of
from wakeline.core.log import WORKSPACE_STREAM
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.subscription import default_id
from wakeline.flow.attend import Attention, report
from wakeline.flow.subscribe import best_target, improve, sessions_of

_replace = msgspec.structs.replace
_encode = msgspec.json.Encoder(order="deterministic").encode
_levels = msgspec.json.Decoder(dict[str, str]).decode


class RecordProof(msgspec.Struct, frozen=True):
    caller: Caller
    harness: str
    transport: str
    version: str
    levels: str  # JSON
    verdicts: str  # JSON
    attention: Attention
    running: tuple[tuple[str, str], ...] = ()  # (session, its agent) of this harness, transport and version

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    @property
    def route(self) -> str:
        return route_of(self.harness, self.transport, self.version)

    def needs(self, needs: Needs) -> None:
        agents = {handle for _, handle in self.running}
        needs.handles.update({self.caller.handle, *agents})
        needs.proofs.add(self.route)
        needs.sessions.update(session_id for session_id, _ in self.running)
        needs.sessions_of.update(agents)
        needs.subscriptions.update(default_id(self.workspace_id, handle) for handle in agents)

    def decide(self, picture: Picture) -> Proof:
        policy.admit(picture, self.caller)
        policy.require_human(self.caller, "say what was proven of a harness")
        proof = Proof(
            self.workspace_id,
            self.route,
            self.harness,
            self.transport,
            self.version,
            self.levels,
            self.verdicts,
            self.caller.handle,
            picture.now,
        )
        picture.put_proof(proof)
        data = {"harness": self.harness, "levels": msgspec.json.decode(self.levels)}
        picture.append("proof.recorded", WORKSPACE_STREAM, 0, self.caller.handle, self.route, data)
        self._apply(picture)
        return proof

    def _apply(self, picture: Picture) -> None:
        """To what runs already: its levels, and the default route of its agent."""
        for session_id, handle in self.running:
            before = picture.sessions.get(session_id)
            if before is None or before.ended_at is not None:
                continue
            levels = admitted(_levels(self.levels), _levels(before.said_levels))
            after = _replace(before, levels=_encode(levels).decode())
            picture.put_session(after)
            report(picture, self.caller.handle, before, after, self.attention)
            default = picture.subscriptions.get(default_id(self.workspace_id, handle))
            if default is not None:
                improve(picture, default, best_target(sessions_of(picture, handle), url=None, has_mcp=False))
