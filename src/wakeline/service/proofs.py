"""Proofs: what was found of ways into harnesses, here and by our own tests."""

from __future__ import annotations

import msgspec

from wakeline import wire
from wakeline.core.bridge_queries import ProofList, SessionsOnRoute
from wakeline.core.instant import to_datetime
from wakeline.core.level import SHIPPED, Proof, route_of
from wakeline.core.principal import Caller
from wakeline.flow.attend import Attention
from wakeline.flow.prove import RecordProof
from wakeline.service.context import Context, check_claims

_encode = msgspec.json.Encoder(order="deterministic").encode


class Proofs:
    def __init__(self, context: Context, attention: Attention) -> None:
        self._context = context
        self._attention = attention

    async def record(self, caller: Caller, request: wire.RecordProof) -> wire.ProofView:
        check_claims(caller, request)
        way = (request.harness, request.transport, request.version)
        running = await self._context.store.read(SessionsOnRoute(caller.workspace_id, *way))
        proof = await self._context.store.submit(
            RecordProof(
                caller,
                *way,
                _encode({verdict.level: verdict.result for verdict in request.verdicts}).decode(),
                _encode(request.verdicts).decode(),
                self._attention,
                tuple((session.session_id, session.handle) for session in running),
            )
        )
        return _view(proof)

    async def list(self, caller: Caller) -> wire.Proofs:
        """Those that are stored, and those of ours that none of them replaces."""
        stored = await self._context.store.read(ProofList(caller.workspace_id))
        routes = {proof.route for proof in stored}
        shipped = [
            wire.ProofView(
                harness=way[0], transport=way[1], version=way[2], levels=dict(levels), shipped=True, verdicts=[]
            )
            for way, levels in SHIPPED.items()
            if route_of(*way) not in routes
        ]
        views = [*map(_view, stored), *shipped]
        return wire.Proofs(proofs=sorted(views, key=lambda one: (one.harness, one.transport, one.version)))


def _view(proof: Proof) -> wire.ProofView:
    return wire.ProofView(
        harness=proof.harness,
        transport=proof.transport,
        version=proof.version,
        levels=msgspec.json.decode(proof.levels, type=dict[str, str]),
        shipped=False,
        verdicts=msgspec.json.decode(proof.verdicts, type=list[wire.VerdictSaid]),
        proven_by=proof.proven_by,
        proven_at=to_datetime(proof.proven_at),
    )
