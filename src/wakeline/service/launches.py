"""What a bridge does about processes: claim what is to be started on its host, say that it runs, settle it."""

from __future__ import annotations

from datetime import UTC

import msgspec

from wakeline import wire
from wakeline.core import doorbell, policy, wake_text
from wakeline.core.activation import Activation, ActivationRules, Mandate
from wakeline.core.activation_queries import ActivationFor, OpenActivations
from wakeline.core.activation_text import outline
from wakeline.core.instant import from_datetime, to_datetime
from wakeline.core.principal import PARTICIPANT, Caller, Kind
from wakeline.core.queries import SessionByNative, SessionList, UnreadCount, UnreadHeads
from wakeline.core.session import Session
from wakeline.errors import WakelineError
from wakeline.flow.attend import Attention
from wakeline.flow.introduce import Introduction
from wakeline.flow.launch import (
    ClaimActivations,
    Found,
    Order,
    SettleActivation,
    StartActivation,
    not_found,
)
from wakeline.service.context import Context, check_claims
from wakeline.service.threads import Threads

MOST = 100
_words = msgspec.json.Decoder(list[str]).decode


class Launches:
    def __init__(
        self, context: Context, rules: ActivationRules, attention: Attention, threads: Threads, human: str
    ) -> None:
        self._context = context
        self._rules = rules
        self._attention = attention
        self._threads = threads
        self._human = human

    async def claim(self, caller: Caller, request: wire.ClaimActivations) -> wire.ActivationOrders:
        check_claims(caller, request)
        host = policy.require_bridge(caller)
        rows = await self._context.store.read(OpenActivations(caller.workspace_id, host, MOST))
        waiting = [row for row in rows if row.lease_owner is None][: request.limit]
        orders: list[Order] = []
        if waiting:
            found = tuple(map(_found, waiting))
            orders = await self._context.store.submit(ClaimActivations(caller, request.bridge_id, found, self._rules))
        mine = [row for row in rows if row.lease_owner == request.bridge_id]
        return wire.ActivationOrders(
            orders=[await self._order(caller, one) for one in orders],
            held=[
                wire.HeldActivation(
                    activation_id=row.activation_id, fence=row.fence, stop=row.stop_asked_by is not None
                )
                for row in mine
            ],
        )

    async def _order(self, caller: Caller, order: Order) -> wire.ActivationOrder:
        row, mandate, session = order.activation, order.mandate, order.session
        latest = session or await self._latest(row)
        started = None if session is None else session.pid_started_at
        return wire.ActivationOrder(
            activation_id=row.activation_id,
            fence=row.fence,
            handle=row.handle,
            way=row.way,
            harness=_harness(mandate, session, latest),
            native_id=None if session is None else session.native_id,
            cwd=_folder(mandate, session, latest),
            pid=None if session is None else session.pid,
            pid_started_at=None if started is None else to_datetime(started),
            command=None if mandate.command is None else _words(mandate.command),
            prompt=await self._prompt(caller, row),
            seconds=self._rules.activation_seconds,
        )

    async def _latest(self, row: Activation) -> Session | None:
        rows = await self._context.store.read(SessionList(row.workspace_id, row.handle, 1, 0, 1))
        return rows[0] if rows else None

    async def _prompt(self, caller: Caller, row: Activation) -> str:
        store, who = self._context.store, (row.workspace_id, row.handle)
        now = await store.now()
        [unread], heads = await store.read_together(UnreadCount(*who, now), UnreadHeads(*who, now, doorbell.HEADS))
        text = wake_text.compose(doorbell.ring(unread, heads, row.handle), heads, ())
        if row.session_id is not None or row.thread_id is None:
            return text
        agent = Caller(row.workspace_id, caller.workspace, row.handle, Kind.AGENT, PARTICIPANT)
        try:
            summary = await self._threads.summarise(agent, row.thread_id)
        except WakelineError:  # the agent is no longer in it, or it is gone: the doorbell says what there is
            return text
        return f"{text} {outline(summary)}"

    async def start(self, caller: Caller, request: wire.StartActivation) -> wire.ActivationSettled:
        check_claims(caller, request)
        host = policy.require_bridge(caller)
        at = request.pid_started_at
        began = None if at is None else from_datetime(at.astimezone(UTC))
        session = None
        if request.session is not None:
            session = await self._introduction(await self._known(caller, host, request.activation_id), request.session)
        what = (request.activation_id, request.fence, request.pid, began)
        settled = await self._context.store.submit(StartActivation(caller, *what, self._rules, session))
        return wire.ActivationSettled(activation_id=request.activation_id, stale=settled.stale, result=None)

    async def settle(self, caller: Caller, request: wire.SettleActivation) -> wire.ActivationSettled:
        check_claims(caller, request)
        row = await self._known(caller, policy.require_bridge(caller), request.activation_id)
        said = SettleActivation(
            caller,
            _found(row),
            request.fence,
            request.end,
            request.reason,
            request.exit_status,
            request.output,
            self._rules,
            self._human,
            None if request.session is None else await self._introduction(row, request.session),
        )
        settled = await self._context.store.submit(said)
        after = settled.activation or row
        return wire.ActivationSettled(activation_id=after.activation_id, stale=settled.stale, result=after.result)

    async def _known(self, caller: Caller, host: str, activation_id: str) -> Activation:
        rows = await self._context.store.read(ActivationFor(caller.workspace_id, activation_id))
        if not rows or rows[0].host != host:
            raise not_found(activation_id)
        return rows[0]

    async def _introduction(self, row: Activation, said: wire.StartedSession) -> Introduction:
        """With the session that goes by that name already, if there is one."""
        who, host = (row.workspace_id, row.handle), row.host or ""
        found = await self._context.store.read(SessionByNative(*who, said.harness, said.native_id, host))
        return Introduction(
            *who,
            host,
            said.harness,
            said.native_id,
            said.cwd,
            self._attention,
            self._context.new_id(),
            found[0].session_id if found else None,
        )


def _found(row: Activation) -> Found:
    return Found(row.activation_id, row.handle, row.message_id, row.session_id)


def _harness(mandate: Mandate, session: Session | None, latest: Session | None) -> str | None:
    """A session is continued by what it is; a new one is what the mandate says, or what the agent last was."""
    if session is not None:
        return session.harness
    return mandate.harness or (None if latest is None else latest.harness)


def _folder(mandate: Mandate, session: Session | None, latest: Session | None) -> str | None:
    if session is not None:
        return session.cwd or mandate.cwd
    return mandate.cwd or (None if latest is None else latest.cwd)
