"""What a bridge may do, and nothing else: hold its host's lease, claim and settle rings, report what it saw."""

from __future__ import annotations

from collections.abc import Callable

from wakeline import wire
from wakeline.core import doorbell, policy, wake_text
from wakeline.core.bridge import LEASE_SECONDS
from wakeline.core.bridge_queries import (
    HostSessions,
    MarkedRings,
    OpenOnHost,
    RungThreads,
    SessionRings,
    UnreadWakes,
    Waiting,
    WaitingRings,
)
from wakeline.core.instant import SECOND
from wakeline.core.log import Position
from wakeline.core.observation import Gone, Injected, Noticed, Observation, Processed, Still, Withdrawn
from wakeline.core.parcel import (
    MARK_PREFIX,
    Absent,
    Accepted,
    Failed,
    Refused,
    Result,
    Uncertain,
    bounded,
    mark_of,
)
from wakeline.core.principal import Caller
from wakeline.core.queries import InboxPage, SessionById, UnreadCount, UnreadHeads, WorkspaceById
from wakeline.core.session import Presence, Session
from wakeline.core.subscription import parse_metadata
from wakeline.core.wake_queries import DeliveryFor, LeasedDeliveries
from wakeline.core.waking import WakeRules
from wakeline.errors import NotFound
from wakeline.flow.announce import Announce
from wakeline.flow.attend import Attention, not_found
from wakeline.flow.match import Flush
from wakeline.flow.observe import Observe
from wakeline.flow.plan import Stamp
from wakeline.flow.ring import ClaimRings, SettleRing, ToRing
from wakeline.flow.tend import Leave, Tend
from wakeline.service.context import Context, check_claims

MOST_SESSIONS = 1000
MOST_ANNOUNCED = 100

View = Callable[[Session, int], wire.SessionView]
Hint = Callable[[int, str, bytes], object]  # (workspace, handle, event): beside the ring, and never waited for


class Bridges:
    def __init__(self, context: Context, rules: WakeRules, view: View, hint: Hint) -> None:
        self._context = context
        self._rules = rules
        self._attention = Attention(rules.presence_stale_seconds * SECOND, rules.context_gate_tokens)
        self._view = view
        self._hint = hint

    # -- the lease ----------------------------------------------------------------------------------------------------

    async def attend(self, caller: Caller, request: wire.AttendBridge) -> wire.BridgeAttended:
        check_claims(caller, request)
        host = policy.require_bridge(caller)
        leased = await self._context.store.read(LeasedDeliveries(request.bridge_id)) if request.started else []
        mine = tuple((row.row_id, row.subscription_id) for row in leased if row.workspace_id == caller.workspace_id)
        transports = tuple(request.transports)
        fresh = await self._context.store.submit(
            Tend(caller, request.bridge_id, request.version, transports, request.started, mine)
        )
        waiting = await self._context.store.read(OpenOnHost(caller.workspace_id, host)) if fresh else []
        if waiting:
            await self._context.store.submit(Flush(caller.workspace_id, tuple(waiting), self._rules, self._stamp()))
        [workspace] = await self._context.store.read(WorkspaceById(caller.workspace_id))
        return wire.BridgeAttended(
            position=str(Position(workspace.epoch, workspace.last_log_id)),
            host=host,
            workspace=caller.workspace,
            lease_seconds=LEASE_SECONDS,
            ring_seconds=self._rules.lease_seconds,
        )

    async def leave(self, caller: Caller, request: wire.LeaveBridge) -> wire.BridgeLeft:
        check_claims(caller, request)
        host = policy.require_bridge(caller)
        await self._context.store.submit(Leave(caller, request.bridge_id))
        return wire.BridgeLeft(host=host)

    async def sessions(self, caller: Caller) -> wire.Sessions:
        host = policy.require_bridge(caller)
        store = self._context.store
        rows = await store.read(HostSessions(caller.workspace_id, host, MOST_SESSIONS))
        now = await store.now()
        return wire.Sessions(sessions=[self._view(row, now) for row in rows])

    # -- rings --------------------------------------------------------------------------------------------------------

    async def claim(self, caller: Caller, request: wire.ClaimRings) -> wire.Rings:
        check_claims(caller, request)
        host = policy.require_bridge(caller)
        store = self._context.store
        rows = await store.read(WaitingRings(caller.workspace_id, host, request.limit))
        found = tuple((row.delivery_id, row.subscription_id, row.session_id) for row in rows)
        stamp = self._stamp(request.bridge_id)
        taken = await store.submit(ClaimRings(caller, request.bridge_id, found, self._rules, stamp))
        for one in taken:
            if one.delivery.attempts == 1:
                self._hint(caller.workspace_id, one.delivery.handle, one.delivery.body.encode())
        return wire.Rings(rings=[await self._ring(caller, one) for one in taken])

    def _stamp(self, bridge_id: str = "") -> Stamp:
        return Stamp(self._context.new_id(), bridge_id)

    async def _ring(self, caller: Caller, claimed: ToRing) -> wire.RingView:
        delivery = claimed.delivery
        mark = mark_of(delivery.event_id)
        text = await self._text(caller, delivery.handle, (mark,), delivery.body)
        if parse_metadata(claimed.subscription.metadata).full_body:
            text = "\n".join([text, await self._bodies(caller, delivery.handle, mark)])
        return wire.RingView(
            delivery_id=delivery.delivery_id,
            subscription_id=delivery.subscription_id,
            event_id=delivery.event_id,
            fence=delivery.fence,
            attempt=delivery.attempts,
            mark=mark,
            text=text,
            body=delivery.body,
            session=self._view(claimed.session, await self._context.store.now()),
        )

    async def _text(self, caller: Caller, handle: str, marks: tuple[str, ...], body: str | None = None) -> str:
        store, who = self._context.store, (caller.workspace_id, handle)
        now = await store.now()
        [unread], heads = await store.read_together(UnreadCount(*who, now), UnreadHeads(*who, now, doorbell.HEADS))
        return wake_text.compose(doorbell.ring(unread, heads, handle), heads, marks, body)

    async def _bodies(self, caller: Caller, handle: str, mark: str) -> str:
        store = self._context.store
        now = await store.now()
        page = InboxPage(caller.workspace_id, handle, now, 0, 0, -1, 0, 0, wake_text.MOST_BODIES)
        rows = [row.message for row in await store.read(page)]
        return wake_text.enclose([(row.message_id, row.sender, row.subject, row.body) for row in rows], mark)

    async def settle(self, caller: Caller, request: wire.SettleRing) -> wire.RingSettled:
        check_claims(caller, request)
        host = policy.require_bridge(caller)
        store = self._context.store
        rows = await store.read(DeliveryFor(caller.workspace_id, request.delivery_id))
        session = await self._session_of(caller, rows[0].session_id or "") if rows else None
        if not rows or session is None or session.host != host:
            raise NotFound("DELIVERY_NOT_FOUND", f"The host {host} has no delivery {request.delivery_id}.")
        command = SettleRing(
            caller,
            request.delivery_id,
            rows[0].subscription_id,
            session.session_id,
            request.fence,
            _result(request),
            self._rules,
            self._stamp(),
        )
        settled = await store.submit(command)
        after = settled.delivery or rows[0]
        return wire.RingSettled(
            delivery_id=after.delivery_id, stale=settled.stale, step=after.step, outcome=after.outcome
        )

    async def _session_of(self, caller: Caller, session_id: str) -> Session | None:
        rows = await self._context.store.read(SessionById(session_id))
        return rows[0] if rows and rows[0].workspace_id == caller.workspace_id else None

    # -- what was seen ------------------------------------------------------------------------------------------------

    async def report(self, caller: Caller, request: wire.ReportObservations) -> wire.Reported:
        check_claims(caller, request)
        policy.require_bridge(caller)
        taken = [await self._observe(caller, request.bridge_id, _observation(one)) for one in request.observations]
        return wire.Reported(taken=sum(taken))

    async def _observe(self, caller: Caller, bridge_id: str, seen: Observation) -> bool:
        marks = seen.marks if isinstance(seen, Injected | Processed | Withdrawn) else ()
        found: list[Waiting] = []
        threads: list[str] = []
        for mark in dict.fromkeys(marks):
            event = (caller.workspace_id, mark.removeprefix(MARK_PREFIX))
            found += await self._context.store.read(MarkedRings(*event))
            threads += await self._context.store.read(RungThreads(*event))
        pairs = tuple((row.delivery_id, row.subscription_id) for row in found)
        return await self._context.store.submit(
            Observe(caller, bridge_id, seen, pairs, self._rules, self._attention, self._stamp(), tuple(threads))
        )

    async def announce(self, caller: Caller, request: wire.AnnounceTurn) -> wire.Announced:
        """What to add to the turn that begins.  Nothing, if a ring of ours began it or is on its way."""
        check_claims(caller, request)
        host = policy.require_bridge(caller)
        session = await self._session_of(caller, request.session_id)
        if session is None or session.host != host:
            raise not_found(request.session_id, host)
        if request.shown:
            return wire.Announced(text=None, marks=[])
        store = self._context.store
        asked = UnreadWakes(caller.workspace_id, session.handle, await store.now(), MOST_ANNOUNCED)
        found = tuple(await store.read(asked))
        marks = await store.submit(
            Announce(
                caller,
                request.bridge_id,
                session.session_id,
                request.turn_id,
                found,
                session.handle,
                tuple(await store.read(SessionRings(session.session_id))),
                self._rules,
                self._stamp(),
            )
        )
        text = "" if marks is None else await self._text(caller, session.handle, tuple(marks))
        return wire.Announced(text=text or None, marks=marks or [])


def _result(request: wire.SettleRing) -> Result:
    reason, detail = request.reason or "unspecified", bounded(request.detail or "")
    match request.result:
        case "accepted":
            return Accepted(None, detail)
        case "refused":
            return Refused(None, reason, detail)
        case "failed":
            return Failed(reason, detail)
        case "absent":
            return Absent()
        case "unknown":
            return Uncertain(reason, detail)


def _observation(said: wire.ObservationSaid) -> Observation:
    marks = tuple(said.marks)
    match said.type:
        case "noticed":
            presence = Presence(said.presence or Presence.UNKNOWN)
            return Noticed(said.session_id, presence, said.turn_id, said.source or "bridge")
        case "still":
            return Still(said.session_id)
        case "injected":
            return Injected(said.session_id, marks, said.turn_id, said.woke)
        case "processed":
            return Processed(said.session_id, marks, said.turn_id, said.status, said.last)
        case "withdrawn":
            return Withdrawn(said.session_id, marks)
        case "gone":
            return Gone(said.session_id, said.reason or "gone")
