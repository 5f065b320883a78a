"""Activation for humans and agents: what is allowed, every attempt, why nothing is started, and ending what runs."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from wakeline import wire
from wakeline.core import policy
from wakeline.core.activation import Activation, ActivationRules, Dormancy, Mandate
from wakeline.core.activation_queries import ActivationFor, ActivationList, DormancyList, MandateFor
from wakeline.core.instant import SECOND, to_datetime
from wakeline.core.principal import Caller
from wakeline.core.queries import PrincipalFor
from wakeline.errors import Forbidden, NotFound
from wakeline.flow.launch import Found, StopActivation, not_found
from wakeline.flow.mandate import AllowActivation
from wakeline.service.context import Context, check_claims

MOST_DORMANT = 500
_words = msgspec.json.Decoder(list[str]).decode


class Activations:
    def __init__(self, context: Context, rules: ActivationRules) -> None:
        self._context = context
        self._rules = rules

    async def allow(self, caller: Caller, handle: str, request: wire.AllowActivation) -> wire.MandateView:
        check_claims(caller, request)
        said = AllowActivation(
            caller,
            handle,
            request.allow,
            request.max_per_hour,
            request.concurrency,
            None if request.command is None else tuple(request.command),
            request.harness,
            request.host,
            request.cwd,
            self._rules,
        )
        return _mandate(await self._context.store.submit(said))

    async def mandate(self, caller: Caller, handle: str) -> wire.MandateView:
        """Anybody may know of their own; nothing said is nothing allowed."""
        self._check(caller, handle)
        if not await self._context.store.read(PrincipalFor(caller.workspace_id, handle)):
            raise NotFound("AGENT_NOT_FOUND", f"There is no {handle} in this workspace.")
        rows = await self._context.store.read(MandateFor(caller.workspace_id, handle))
        return _mandate(rows[0]) if rows else _nothing(handle)

    async def list(self, caller: Caller, query: wire.ActivationsQuery) -> wire.Activations:
        handle = query.handle or ("" if caller.reads_everything else caller.handle)
        self._check(caller, handle)
        store = self._context.store
        silent_since = await store.now() - self._rules.dormant_seconds * SECOND
        rows, dormant = await store.read_together(
            ActivationList(caller.workspace_id, handle, query.result or "", query.before or "", query.limit + 1),
            DormancyList(caller.workspace_id, handle, silent_since, MOST_DORMANT),
        )
        shown, more = rows[: query.limit], len(rows) > query.limit
        return wire.Activations(
            activations=[view(row) for row in shown],
            dormant=[_dormant(row) for row in dormant],
            has_more=more,
            next=shown[-1].activation_id if more else None,
        )

    async def get(self, caller: Caller, activation_id: str) -> wire.ActivationView:
        row = await self._row(caller, activation_id)
        return view(row, row.output)

    async def stop(self, caller: Caller, activation_id: str, request: wire.StopActivation) -> wire.ActivationView:
        check_claims(caller, request)
        policy.require_human(caller, "end what was started for an agent")
        row = await self._row(caller, activation_id)
        found = Found(row.activation_id, row.handle, row.message_id, row.session_id)
        return view(await self._context.store.submit(StopActivation(caller, found, self._rules)))

    async def _row(self, caller: Caller, activation_id: str) -> Activation:
        rows = await self._context.store.read(ActivationFor(caller.workspace_id, activation_id))
        if not rows or not (rows[0].handle == caller.handle or caller.reads_everything):
            raise not_found(activation_id)
        return rows[0]

    def _check(self, caller: Caller, handle: str) -> None:
        if handle != caller.handle and not caller.reads_everything:
            raise Forbidden("ROLE_FORBIDDEN", "An agent sees its own activations only.", rule="activations")


def view(row: Activation, output: str | UnsetType | None = UNSET) -> wire.ActivationView:
    return wire.ActivationView(
        activation_id=row.activation_id,
        handle=row.handle,
        way=row.way,
        state=_state(row),
        result=row.result,
        reason=row.reason,
        attempt=row.attempt,
        session_id=row.session_id,
        host=row.host,
        thread_id=row.thread_id,
        message_id=row.message_id,
        pid=row.pid,
        exit_status=row.exit_status,
        stop_asked_by=row.stop_asked_by,
        created_at=to_datetime(row.created_at),
        started_at=None if row.started_at is None else to_datetime(row.started_at),
        settled_at=None if row.settled_at is None else to_datetime(row.settled_at),
        output=output,
    )


def _state(row: Activation) -> str:
    if row.result is not None:
        return "ended"
    if row.started_at is not None:
        return "running"
    return "planned" if row.lease_owner is None else "claimed"


def _dormant(row: Dormancy) -> wire.DormantView:
    return wire.DormantView(
        handle=row.handle,
        reason=row.reason,
        tries=row.tries,
        failures=row.failures,
        stopped=row.stopped_at is not None,
        message_id=row.message_id,
        next_at=to_datetime(row.next_at) if row.next_at else None,
    )


def _mandate(row: Mandate) -> wire.MandateView:
    return wire.MandateView(
        handle=row.handle,
        allow=row.allow,
        max_per_hour=row.max_per_hour,
        concurrency=row.concurrency,
        command=None if row.command is None else _words(row.command),
        harness=row.harness,
        host=row.host,
        cwd=row.cwd,
        changed_by=row.changed_by,
        changed_at=to_datetime(row.changed_at),
    )


def _nothing(handle: str) -> wire.MandateView:
    return wire.MandateView(
        handle=handle,
        allow="none",
        max_per_hour=0,
        concurrency=0,
        command=None,
        harness=None,
        host=None,
        cwd=None,
        changed_by=None,
        changed_at=None,
    )
