"""Makes wakes happen on this node: matches when the log grows, plans when a time has come, brings out what is claimed.

Everything it knows is in the store; what it holds in memory is only what it is carrying just now.
It may die on any line: the cursor, the flush times and the leases say what the next one has to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from wakeline.core.bridge_queries import LapsedRings, Poked, WakesToPoke
from wakeline.core.instant import SECOND
from wakeline.core.log import LogEntry
from wakeline.core.parcel import Adapter, Failed, Parcel, Prepares, Result
from wakeline.core.queries import AllWorkspaces
from wakeline.core.store import Store
from wakeline.core.subscription import Target
from wakeline.core.wake_queries import (
    Due,
    DueDeliveries,
    DueSubscriptions,
    LeasedDeliveries,
    OpenSubscriptions,
)
from wakeline.core.waking import WakeRules, latest_poke
from wakeline.errors import Unavailable, WakelineError
from wakeline.flow.at_once import AtOnce
from wakeline.flow.deliver import Claim, Settle
from wakeline.flow.match import Flush
from wakeline.flow.observe import Poke
from wakeline.flow.plan import Planned, Stamp
from wakeline.flow.ring import Lapse
from wakeline.runtime.matcher import Matcher
from wakeline.runtime.supervisor import Supervisor

_log = logging.getLogger(__name__)

AT_ONCE = 100
TICK_SECONDS = 1.0
# A look after each commit costs much the same for one row as for many.  Where several came at a time more will, and the
# next look takes them together.
FEW = 4
PAUSE_SECONDS = 0.02
AGAIN_SECONDS = 1.0

Pack = Callable[[Planned], Parcel]


class Connections(Protocol):
    """What receivers have open to this node."""

    def heard(self, workspace_id: int, handle: str) -> frozenset[str]:
        """The event types of which this receiver would be told now."""

    def push(self, workspace_id: int, handle: str, body: bytes) -> int:
        """Tell it of an event, as a hint: nobody need be there, and nothing is waited for."""


class Waker:
    def __init__(
        self,
        store: Store,
        rules: WakeRules,
        adapters: Mapping[str, Adapter],
        *,
        node: str,
        new_id: Callable[[], str],
        pack: Pack,
        connections: Connections,
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._rules = rules
        self._adapters = adapters
        self._early = {target: one for target, one in adapters.items() if isinstance(one, Prepares)}
        self._node = node
        self._new_id = new_id
        self._pack = pack
        self._connections = connections
        self._monotonic = monotonic
        self._matcher = Matcher(store, rules, self._stamp, self._carry_all)
        self._supervisor = Supervisor(store, rules, self._flush_all)
        self._pending: set[int] = {0}
        self._loop = asyncio.get_running_loop()
        self._ring = asyncio.Event()
        self._timer = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._ring.set()
        store.on_commit(self.look)
        store.follow_up(AtOnce(rules, node, frozenset(adapters)), self._carry_all, self._expect)

    # -- doorbells ----------------------------------------------------------------------------------------------------

    def look(self, workspace_id: int) -> None:
        if self._matcher.is_idle(workspace_id):
            return  # until the log tells of a subscription
        self._pending.add(workspace_id)
        # A turn later: who posted is answered before we begin to read.
        self._loop.call_soon(self._ring.set)

    def hear(self, row: LogEntry) -> None:
        """Of a control row, wherever it was written."""
        if row.kind == "subscription.created":
            self._matcher.expect(row)
            self.look(row.workspace_id)

    def seated(self, workspace_id: int, handle: str) -> None:
        """There is a way to a receiver, or to one of its sessions, again: whatever is held is looked at now."""
        if self._group is not None:
            self._group.create_task(self._attend(workspace_id, handle))

    def _stamp(self, workspace_id: int, handles: set[str]) -> Stamp:
        heard = frozenset(
            (handle, told) for handle in handles for told in self._connections.heard(workspace_id, handle)
        )
        return Stamp(self._new_id(), self._node, frozenset(self._adapters), heard)

    # -- loops --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._forever(self._take_back))
            group.create_task(self._forever(self._match))
            group.create_task(self._forever(self._tick))
            group.create_task(self._forever(self._supervise))

    async def _forever(self, step: Callable[[], Awaitable[bool]]) -> None:
        """A store that is away is tried again: every step starts from what is stored.  So is a bug, loudly."""
        while True:
            try:
                if not await step():
                    return
            except Unavailable as error:
                _log.warning("waking is postponed: %s", error.message)
            except Exception:  # noqa: BLE001 - waking must not take the server with it
                _log.exception("waking failed because of a bug")
            else:
                continue
            await asyncio.sleep(AGAIN_SECONDS)
            self.look(0)

    async def _match(self) -> bool:
        await self._ring.wait()
        self._ring.clear()  # before reading: what arrives meanwhile rings again
        pending, self._pending = self._pending, set()
        if 0 in pending:
            pending |= {workspace.workspace_id for workspace in await self._store.read(AllWorkspaces())}
        rows = 0
        for workspace_id in pending - {0}:
            rows += await self._matcher.follow(workspace_id)
            if not self._matcher.is_idle(workspace_id):
                self._timer.set()
        if rows > FEW:
            await asyncio.sleep(PAUSE_SECONDS)
        return True

    async def _tick(self) -> bool:
        """Plan and claim what is due, then sleep until the next time, or, after a moment, until something sets one."""
        self._timer.clear()  # before reading, as above
        now = await self._store.now()
        next_at = min(await self._flush(now), await self._claim(now))
        await self._look_after_rings(now)
        wait = min(TICK_SECONDS, max(0.0, (next_at - now) / SECOND))
        await asyncio.sleep(min(wait, PAUSE_SECONDS))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait - PAUSE_SECONDS):
                await self._timer.wait()
        return True

    async def _supervise(self) -> bool:
        """What no timer knows of is looked at again all the same, and first of all at the start."""
        await self._supervisor.look()
        await asyncio.sleep(self._rules.supervisor_seconds)
        await self._matcher.save()
        return True

    async def _attend(self, workspace_id: int, handle: str) -> None:
        try:
            ids = await self._store.read(OpenSubscriptions(workspace_id, handle))
            await self._flush_all([Due(workspace_id, one, one, handle, 0) for one in ids])
        except WakelineError as error:
            _log.warning("waking %s is postponed: %s", handle, error.message)

    # -- planning -----------------------------------------------------------------------------------------------------

    async def _flush(self, now: int) -> int:
        """Answers when the next subscription is due."""
        rows = await self._store.read(DueSubscriptions(now + SECOND, AT_ONCE))
        await self._flush_all([row for row in rows if row.at <= now])
        return min((row.at for row in rows if row.at > now), default=now + SECOND)

    async def _flush_all(self, rows: Sequence[Due]) -> None:
        for workspace_id, due in _by_workspace(rows).items():
            ids = tuple(row.subscription_id for row in due)
            stamp = self._stamp(workspace_id, {row.handle for row in due})
            self._carry_all(await self._store.submit(Flush(workspace_id, ids, self._rules, stamp)))

    async def _claim(self, now: int) -> int:
        next_at = now + SECOND
        for target in self._adapters:
            rows = await self._store.read(DueDeliveries(target, now + SECOND, AT_ONCE))
            await self._claim_all([row for row in rows if row.at <= now])
            next_at = min([next_at, *(row.at for row in rows if row.at > now)])
        return next_at

    async def _look_after_rings(self, now: int) -> None:
        """What bridges have not settled or nobody has confirmed in time, and mail that stays unread."""
        before = now - self._rules.outstanding_seconds * SECOND
        lapsed = await self._store.read(LapsedRings(now, before, AT_ONCE))
        for workspace_id, due in _by_workspace(lapsed).items():
            found = tuple((row.row_id, row.subscription_id) for row in due)
            stamp = self._stamp(workspace_id, {row.handle for row in due})
            self._carry_all(await self._store.submit(Lapse(workspace_id, found, self._rules, stamp)))
        pokes: dict[int, list[Poked]] = {}
        for row in await self._store.read(WakesToPoke(now, latest_poke(self._rules, now), AT_ONCE)):
            pokes.setdefault(row.workspace_id, []).append(row)
        for workspace_id, rows in pokes.items():
            wakes = tuple((row.subscription_id, row.log_id) for row in rows)
            rung = tuple({row.delivery_id for row in rows})
            command = Poke(workspace_id, wakes, rung, self._rules, self._stamp(workspace_id, set()))
            self._carry_all(await self._store.submit(command))

    async def _take_back(self) -> bool:
        """What this node was carrying when it was killed.  Only a node whose name is its own can say so."""
        await self._claim_all(await self._store.read(LeasedDeliveries(self._node)), restarted=True)
        return False

    async def _claim_all(self, rows: Sequence[Due], *, restarted: bool = False) -> None:
        for workspace_id, due in _by_workspace(rows).items():
            ids = tuple(row.row_id for row in due)
            stamp = self._stamp(workspace_id, {row.handle for row in due})
            theirs = tuple({row.subscription_id for row in due})
            command = Claim(workspace_id, ids, theirs, self._rules, stamp, restarted=restarted)
            self._carry_all(await self._store.submit(command))

    # -- carrying -----------------------------------------------------------------------------------------------------

    def _expect(self, planned: Sequence[Planned]) -> None:
        """What we shall probably have to bring out in a moment."""
        for one in planned:
            adapter = self._early.get(one.delivery.target)
            if adapter is not None:
                adapter.prepare(self._pack(one))

    def _carry_all(self, planned: Sequence[Planned]) -> None:
        for one in planned:
            if self._group is not None:
                adapter = self._early.get(one.delivery.target)
                if adapter is not None:
                    adapter.release(one.delivery.delivery_id)
                self._group.create_task(self._carry(one))

    async def _carry(self, planned: Planned | None) -> None:
        """Bring it out, settle it, and go on with what its settlement has planned.

        Nobody waits for a turn here: what is scarce on a route, its adapter shares out, by receiver.
        """
        while planned is not None:
            claimed = self._monotonic()
            parcel = self._pack(planned)
            if parcel.target != Target.MCP and parcel.attempt == 1 and not parcel.callback:
                self._connections.push(parcel.workspace_id, parcel.handle, parcel.body)  # beside its own route
            result = await self._deliver(parcel, planned.delivery.target)
            planned = await self._settle(planned, result, claimed)
        self._timer.set()

    async def _deliver(self, parcel: Parcel, target: str) -> Result:
        try:
            return await self._adapters[target].deliver(parcel)
        except Exception as error:  # noqa: BLE001 - one adapter's bug must not end the wakes of all others
            _log.exception("an adapter failed because of a bug")
            return Failed("internal", type(error).__name__, retryable=True)

    async def _settle(self, planned: Planned, result: Result, claimed: float) -> Planned | None:
        """Until it is stored or the lease is over; then somebody else brings it out again."""
        delivery = planned.delivery
        command = Settle(
            delivery.workspace_id,
            delivery.delivery_id,
            delivery.subscription_id,
            delivery.fence,
            result,
            self._rules,
            self._stamp(delivery.workspace_id, {delivery.handle}),
        )
        while self._monotonic() < claimed + self._rules.lease_seconds:
            try:
                return (await self._store.submit(command)).planned
            except WakelineError as error:
                _log.warning("a delivery could not be settled yet: %s", error.message)
                await asyncio.sleep(AGAIN_SECONDS)
        return None


def _by_workspace(rows: Sequence[Due]) -> dict[int, list[Due]]:
    sorted_rows: dict[int, list[Due]] = {}
    for row in rows:
        sorted_rows.setdefault(row.workspace_id, []).append(row)
    return sorted_rows
