"""Sessions: register them and hear their heartbeats, end them, and show who is there."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
from msgspec import UnsetType

from wakeline import wire
from wakeline.core import doorbell
from wakeline.core.instant import plus
from wakeline.core.principal import Caller, Principal
from wakeline.core.queries import (
    PrincipalList,
    SessionById,
    SessionByNative,
    SessionList,
    UnreadCount,
    UnreadCounts,
    UnreadHeads,
)
from wakeline.core.session import Session, Sighting, is_dormant, liveness, presence_of
from wakeline.errors import Forbidden, InvalidArgument
from wakeline.flow.attend import Attention, EndSession, Heartbeat, not_found, tells_of_levels, way_of
from wakeline.service import views
from wakeline.service.context import Context, check_claims, check_session, to_instant
from wakeline.wire.common import SESSION_ID_PATTERN

# What has been silent for longer is history: a session that crashed did not say that it ended.
SHOWN_FOR = timedelta(days=7)
MOST_PEERS = 1000
_session_id = re.compile(SESSION_ID_PATTERN)


class Surroundings(msgspec.Struct, frozen=True):
    """This machine: its names, and how to look at one of its processes."""

    hosts: frozenset[str]
    look: Callable[[int], Sighting]


class Sessions:
    def __init__(
        self,
        context: Context,
        here: Surroundings,
        attention: Attention,
        dormant_after: int,
        welcome: Callable[[Caller], Awaitable[None]],
    ) -> None:
        self._context = context
        self._here = here
        self._attention = attention
        self._dormant_after = dormant_after
        self._welcome = welcome  # an agent that has come
        self._on_seat: Callable[[int, str], object] = lambda _workspace_id, _handle: None

    def on_seat(self, call: Callable[[int, str], object]) -> None:
        """Who asks is told when a session says how it is reached: what waits for that may ring."""
        self._on_seat = call

    # -- a session's own words ----------------------------------------------------------------------------------------

    async def heartbeat(self, caller: Caller, request: wire.HeartbeatSession) -> wire.Attended:
        check_claims(caller, request)
        check_session(caller, request.session_id)
        if not isinstance(request.pid_started_at, UnsetType):
            to_instant("pid_started_at", request.pid_started_at)
        beat = Heartbeat(caller, request, self._context.new_id(), self._attention)
        session = await self._context.store.submit(await self._informed(beat))
        # What it can do may be known only later: a hook registers a session before the bridge has found the way to it.
        if session.started_at == session.heartbeat_at or tells_of_levels(request):
            await self._welcome(caller)
            # It may be just as it was when a ring did not find it.  Then the log has no news that would end the hold.
            self._on_seat(caller.workspace_id, caller.handle)
        unread, text = await self._mail(caller)
        return wire.Attended(session_id=session.session_id, presence=session.presence, unread=unread, doorbell=text)

    async def _informed(self, beat: Heartbeat) -> Heartbeat:
        """With the session that it is about, if there is one, and how that was reached so far."""
        caller = beat.caller
        if caller.session_id is not None:
            await self._check_free(caller, caller.session_id)
        if not tells_of_levels(beat.said):
            return beat
        found = await self._find(beat)
        if found is None:
            return beat
        return msgspec.structs.replace(
            beat, found=None if beat.named is not None else found.session_id, known=way_of(found)
        )

    async def _find(self, beat: Heartbeat) -> Session | None:
        store, caller, said = self._context.store, beat.caller, beat.said
        if beat.named is not None:
            found = await store.read(SessionById(beat.named))
        elif isinstance(said.harness, UnsetType):
            found = []
        else:
            native_id, host = said.native_id or "", said.host or ""
            found = await store.read(SessionByNative(caller.workspace_id, caller.handle, said.harness, native_id, host))
        return found[0] if found else None

    async def _check_free(self, caller: Caller, session_id: str) -> None:
        """A token may name any session; only one that can be addressed, and is no other workspace's, is registered."""
        if not _session_id.match(session_id):
            raise InvalidArgument(
                "INVALID_ARGUMENT",
                "This token's session cannot be registered by that name.",
                "Make a token for a session of letters, digits and '.', '_', ':', '~', '-'.",
            )
        found = await self._context.store.read(SessionById(session_id))
        if found and found[0].workspace_id != caller.workspace_id:
            raise not_found(session_id, caller.handle)

    async def _mail(self, caller: Caller) -> tuple[int, str | None]:
        store, who = self._context.store, (caller.workspace_id, caller.handle)
        now = await store.now()
        [unread], heads = await store.read_together(UnreadCount(*who, now), UnreadHeads(*who, now, doorbell.HEADS))
        return unread, doorbell.ring(unread, heads, caller.handle)

    async def end(self, caller: Caller, session_id: str, request: wire.EndSession) -> wire.SessionView:
        check_claims(caller, request)
        check_session(caller, session_id)
        session = await self._context.store.submit(EndSession(caller, session_id))
        return self.view(session, await self._context.store.now())

    # -- what others see ----------------------------------------------------------------------------------------------

    async def list(self, caller: Caller, query: wire.SessionsQuery) -> wire.Sessions:
        handle = query.handle or ("" if caller.reads_everything else caller.handle)
        if handle != caller.handle and not caller.reads_everything:
            raise Forbidden(
                "ROLE_FORBIDDEN",
                "Only an auditor, a coordinator or a human lists the sessions of others.",
                "GET /v1/peers shows who is there.",
                rule="sessions",
            )
        store = self._context.store
        rows = await store.read(SessionList(caller.workspace_id, handle, int(query.ended), 0, query.limit))
        now = await store.now()
        return wire.Sessions(sessions=[self.view(row, now) for row in rows])

    def view(self, row: Session, now: int) -> wire.SessionView:
        return views.session(
            row,
            presence=presence_of(row, now, self._attention.stale_after),
            dormant=is_dormant(row, now, self._dormant_after),
            liveness=self._liveness(row),
        )

    def _liveness(self, row: Session) -> str:
        is_here = row.host in self._here.hosts
        return liveness(row, self._here.look(row.pid) if is_here and row.pid is not None else None)

    async def peers(self, caller: Caller) -> wire.Peers:
        store, workspace_id = self._context.store, caller.workspace_id
        now = await store.now()
        principals, counts, sessions = await store.read_together(
            PrincipalList(workspace_id),
            UnreadCounts(workspace_id, now),
            SessionList(workspace_id, "", 0, plus(now, -SHOWN_FOR), MOST_PEERS),
        )
        unread = dict(counts)
        by_handle: dict[str, list[Session]] = {}
        for row in sessions:
            by_handle.setdefault(row.handle, []).append(row)
        present: list[Principal] = [one for one in principals if one.retired_at is None]
        return wire.Peers(
            peers=[
                self._peer(caller, one, row, unread[one.handle], now)
                for one in present
                for row in by_handle.get(one.handle, [None])
            ]
        )

    def _peer(self, caller: Caller, principal: Principal, row: Session | None, unread: int, now: int) -> wire.PeerView:
        peer = wire.PeerView(handle=principal.handle, kind=principal.kind, unread=unread)
        if row is None:
            return peer
        view = self.view(row, now)
        # Where a peer works and as which process is its own business, and that of who reads everything.
        is_open = caller.reads_everything or caller.handle == row.handle
        shared = {name: getattr(view, name) for name in wire.SHARED_WITH_PEERS + (("cwd", "pid") if is_open else ())}
        return msgspec.structs.replace(peer, backend=view.harness, **shared)
