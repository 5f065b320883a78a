"""The bridge of one host: claims what is to be rung in its sessions, rings by adapter, settles, and tells what it sees.

It matches and plans nothing: the server does.  Everything it holds can be lost.  A doorbell that was lost costs
latency only, because it also looks by itself; a ring whose end it could not tell in time is `unknown` to the server;
and a server that is away is tried again, more and more slowly.  One slow adapter or session holds up no other: every
ring is a task of its own, and every wait is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from wakeline import wire
from wakeline.adapters.harness import Observes, Withdraws
from wakeline.core.observation import Observation, Withdrawn
from wakeline.core.parcel import Absent, Accepted, Failed, Parcel, Refused, Result, Uncertain
from wakeline.core.session import Session
from wakeline.core.subscription import Target
from wakeline.errors import Conflict, Gone, Unavailable, WakelineError
from wakeline.runtime.crew import Crew
from wakeline.runtime.lines import Line
from wakeline.runtime.sightings import Sightings, to_session
from wakeline.runtime.starter import Starter

_log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
AT_ONCE = 20
CARRIED = 256
WITHDRAW_SECONDS = 10.0
MARGIN_SECONDS = 8.0  # of a ring's lease: for settling it
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0


class Bridge:
    """`strict`: another bridge for this host ends it; else it waits for its turn."""

    def __init__(
        self, lines: Sequence[Line], crew: Crew, starter: Starter, *, strict: bool, monotonic: Callable[[], float]
    ) -> None:
        self._crew = crew
        self._starter = starter
        self._strict = strict
        self._monotonic = monotonic
        self._places = {line.workspace: _Place(line) for line in lines}
        self._carrying = asyncio.Semaphore(CARRIED)
        self._group: asyncio.TaskGroup | None = None
        self._attended = asyncio.Event()

    @property
    def transports(self) -> list[str]:
        return self._crew.transports

    async def attended(self) -> None:
        """Until a first workspace was attended."""
        await self._attended.wait()

    def line(self, workspace: str) -> Line | None:
        place = self._places.get(workspace)
        return None if place is None else place.line

    async def refresh(self, workspace: str) -> None:
        """A session has come: look who is there."""
        place = self._places[workspace]
        place.sessions = {one.session_id: to_session(one) for one in await place.line.sessions()}
        place.wake()

    def workspace_of(self, session_id: str) -> str | None:
        place = self._place_of(session_id)
        return None if place is None else place.line.workspace

    def sessions(self) -> list[Session]:
        return [session for place in self._places.values() for session in place.sessions.values()]

    async def report(self, seen: Observation) -> None:
        """Of a session of any workspace.  What nobody knows is not told to anybody."""
        place = self._place_of(seen.session_id)
        if place is not None:
            await place.sightings.put(seen)

    def _place_of(self, session_id: str) -> _Place | None:
        return next((place for place in self._places.values() if session_id in place.sessions), None)

    async def announce(
        self, session_id: str, turn_id: str | None, shown: tuple[str, ...]
    ) -> tuple[str | None, list[str]]:
        place = self._place_of(session_id)
        if place is None:
            return None, []
        told = await place.line.announce(session_id, turn_id, shown)
        return told.text, told.marks

    # -- loops --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled.  Raises Conflict when another bridge serves this host and we may not wait for it."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for place in self._places.values():
                group.create_task(self._serve(place))
            for adapter in self._crew.adapters:
                if isinstance(adapter, Observes):
                    group.create_task(self._watch(adapter))

    def add(self, line: Line) -> None:
        """A workspace that is new."""
        if self._group is not None and line.workspace not in self._places:
            place = self._places[line.workspace] = _Place(line)
            self._group.create_task(self._serve(place))

    async def _serve(self, place: _Place) -> None:
        await self._first(place)
        self._attended.set()
        async with asyncio.TaskGroup() as group:
            for step in (self._renew, self._listen, self._look, self._start, self._tell):
                group.create_task(self._forever(place, step))

    async def stop(self) -> None:
        """Let go of the leases, so that the next bridge need not wait."""
        for place in self._places.values():
            with contextlib.suppress(WakelineError, TimeoutError):
                async with asyncio.timeout(2):
                    await place.line.leave()
            await place.line.close()

    async def _first(self, place: _Place) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._attend(place, started=True)
            except Conflict as error:
                if self._strict:
                    raise
                (_log.warning if pause == FIRST_PAUSE else _log.debug)("bridging is postponed: %s", error.message)
            except Unavailable as error:
                _log.warning("the server cannot be reached yet: %s", error.message)
            else:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _attend(self, place: _Place, *, started: bool) -> None:
        attended = await place.line.attend(self.transports, started=started)
        place.attended = attended
        place.position = place.position or attended.position
        place.wake()

    async def _forever(self, place: _Place, step: Callable[[_Place], Awaitable[None]]) -> None:
        """A server that is away, or that has given our lease to somebody else meanwhile, is tried again."""
        pause = FIRST_PAUSE
        while True:
            try:
                await step(place)
            except WakelineError as error:
                _log.warning("bridging %s is postponed: %s", place.line.workspace, error.message)
            except Exception:  # noqa: BLE001 - one loop's bug must not end the others
                _log.exception("bridging failed because of a bug")
            else:
                pause = FIRST_PAUSE
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _renew(self, place: _Place) -> None:
        await asyncio.sleep(place.attended.lease_seconds / 3 if place.attended is not None else POLL_SECONDS)
        await self._attend(place, started=False)

    async def _listen(self, place: _Place) -> None:
        """Follow the doorbell.  A position that is no longer kept is of no use; the next look finds what there is."""
        try:
            async for knock in place.line.doorbells(place.position):
                place.position = knock.position
                place.wake()
                if knock.unwanted is not None and self._group is not None:
                    self._group.create_task(self._withdraw(place, *knock.unwanted))
        except Gone as error:
            place.position = str(error.details.get("position") or place.position)
            place.wake()

    async def _look(self, place: _Place) -> None:
        """Claim what there is, when the doorbell rings and now and then without it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await place.ring.wait()
        rang = place.ring.is_set()
        place.ring.clear()  # before claiming: what arrives meanwhile rings again
        if not rang:
            place.sessions = {one.session_id: to_session(one) for one in await place.line.sessions()}
        rings = await place.line.claim(AT_ONCE)
        for ring in rings:
            self._carry(place, ring)
        if len(rings) == AT_ONCE:
            place.ring.set()

    async def _start(self, place: _Place) -> None:
        """Start what is to be started for agents that are dormant, and look after what runs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await place.orders.wait()
        place.orders.clear()
        if self._group is not None:
            await self._starter.serve(place.line, self._group)

    async def _tell(self, place: _Place) -> None:
        await place.sightings.send(place.line)

    async def _watch(self, adapter: Observes) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await adapter.watch(self.sessions, self.report)
            except Exception:  # noqa: BLE001 - an adapter's bug must not end the rings of all others
                _log.exception("an adapter's watch failed because of a bug")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    # -- ringing ------------------------------------------------------------------------------------------------------

    def _carry(self, place: _Place, ring: wire.RingView) -> None:
        session = to_session(ring.session)
        place.sessions[session.session_id] = session
        if self._group is not None:
            self._group.create_task(self._bring(place, ring, session))

    async def _bring(self, place: _Place, ring: wire.RingView, session: Session) -> None:
        claimed = self._monotonic()
        lease = place.attended.ring_seconds if place.attended is not None else 0
        patience = max(1.0, lease - MARGIN_SECONDS)
        async with self._carrying:
            if self._monotonic() > claimed + MARGIN_SECONDS:
                return  # it waited here too long: the server calls it unknown, and we have not touched it
            result = await self._ring(_parcel(ring, session, patience), session, patience)
        await self._settle(place, ring, result, claimed + lease)

    async def _ring(self, parcel: Parcel, session: Session, patience: float) -> Result:
        adapter = self._crew.adapter_for(session)
        if adapter is None:
            return Absent()
        try:
            async with asyncio.timeout(patience):
                return await adapter.deliver(parcel)
        except TimeoutError:
            return Uncertain("timeout", "The adapter did not come back in time.")
        except Exception as error:  # noqa: BLE001 - one adapter's bug must not end the rings of all others
            _log.exception("an adapter failed because of a bug")
            return Uncertain("internal", type(error).__name__)

    async def _withdraw(self, place: _Place, session_id: str, mark: str) -> None:
        """Its mail was read: a doorbell that still waits in its harness's queue would wake a model for nothing."""
        session = place.sessions.get(session_id)
        adapter = None if session is None else self._crew.adapter_for(session)
        if session is None or adapter is None or not isinstance(adapter, Withdraws):
            return
        try:
            async with asyncio.timeout(WITHDRAW_SECONDS):
                if await adapter.withdraw(session, mark):
                    await place.sightings.put(Withdrawn(session_id, (mark,)))
        except TimeoutError:
            _log.info("a doorbell that nobody needs any more could not be withdrawn in time")
        except Exception:  # noqa: BLE001 - one adapter's bug must not end the rings of all others
            _log.exception("an adapter failed because of a bug")

    async def _settle(self, place: _Place, ring: wire.RingView, result: Result, until: float) -> None:
        """Until it is stored or the lease is over; then the server knows that nobody knows."""
        word, reason, detail = said(result)
        pause = FIRST_PAUSE
        while self._monotonic() < until:
            try:
                await place.line.settle(ring, word, reason, detail)
            except Unavailable as error:
                _log.warning("a ring could not be settled yet: %s", error.message)
            except WakelineError as error:
                _log.warning("a ring could not be settled: %s", error.message)
                return
            else:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class _Place:
    """One workspace as this bridge knows it."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.attended: wire.BridgeAttended | None = None
        self.position = ""
        self.ring = asyncio.Event()
        self.orders = asyncio.Event()
        self.sessions: dict[str, Session] = {}
        self.sightings = Sightings()

    def wake(self) -> None:
        self.ring.set()
        self.orders.set()


def _parcel(ring: wire.RingView, session: Session, patience: float) -> Parcel:
    return Parcel(
        delivery_id=ring.delivery_id,
        event_id=ring.event_id,
        subscription_id=ring.subscription_id,
        attempt=ring.attempt,
        target=Target.BRIDGE,
        url=None,
        body=ring.body.encode(),
        timeout=timedelta(seconds=patience * 0.9),
        handle=session.handle,
        text=ring.text,
        mark=ring.mark,
        session=session,
    )


def said(result: Result) -> tuple[str, str | None, str | None]:
    """A result for the wire: the word, the reason, the detail."""
    match result:
        case Accepted():
            return "accepted", None, result.detail
        case Refused():
            return "refused", result.reason, result.detail
        case Failed():
            return "failed", result.reason, result.detail
        case Uncertain():
            return "unknown", result.reason, result.detail
        case Absent():
            return "absent", None, None
