"""A bridge's line to a server, one for each workspace: in the same process, or over HTTP with a bridge's token.

Both ways send the same calls, which `wakeline.calls` describes: over HTTP by the client, within the process straight to
the service that the HTTP face would have called.  A line says each thing once, and the bridge does not know which way
it has.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec

from wakeline import calls, wire
from wakeline.calls import Call
from wakeline.client import Client
from wakeline.core.bridge import BRIDGE_ROLE
from wakeline.core.log import UNWANTED, Workspace
from wakeline.core.principal import SYSTEM, Caller, Kind
from wakeline.errors import Forbidden, InvalidArgument
from wakeline.service import Services
from wakeline.version import VERSION

P = ParamSpec("P")
R = TypeVar("R", bound=wire.Request)
A = TypeVar("A", bound=wire.Answer)
Named = Mapping[str, object]  # the session of a started process, as its harness names it


class Knock(NamedTuple):
    """`unwanted`: the session and the mark of a ring that nobody need be woken by any more.

    That never changes again, so it is told here and need not be asked for.  Who misses it is woken once for nothing.
    """

    position: str
    unwanted: tuple[str, str] | None = None


def _operation(
    make: Callable[P, Call], request: type[R], find: Callable[[Services], Callable[[Caller, R], Awaitable[A]]]
) -> Callable[Concatenate[Within, P], Coroutine[Any, Any, A]]:
    """The method of the same name as the client's, with the same arguments."""

    @wraps(make)
    async def operation(within: Within, /, *args: P.args, **kwargs: P.kwargs) -> A:
        try:
            said = msgspec.convert(make(*args, **kwargs).body, request)
        except msgspec.ValidationError as error:
            raise InvalidArgument("INVALID_ARGUMENT", f"The request is not as described: {error}.") from error
        return await find(within.services)(within.caller, said)

    return operation


class Within:
    """What the client offers a bridge, in the server's own process."""

    attend_bridge = _operation(calls.attend_bridge, wire.AttendBridge, lambda services: services.bridges.attend)
    leave_bridge = _operation(calls.leave_bridge, wire.LeaveBridge, lambda services: services.bridges.leave)
    claim_rings = _operation(calls.claim_rings, wire.ClaimRings, lambda services: services.bridges.claim)
    settle_ring = _operation(calls.settle_ring, wire.SettleRing, lambda services: services.bridges.settle)
    report_observations = _operation(
        calls.report_observations, wire.ReportObservations, lambda services: services.bridges.report
    )
    announce_turn = _operation(calls.announce_turn, wire.AnnounceTurn, lambda services: services.bridges.announce)
    claim_activations = _operation(
        calls.claim_activations, wire.ClaimActivations, lambda services: services.launches.claim
    )
    start_activation = _operation(
        calls.start_activation, wire.StartActivation, lambda services: services.launches.start
    )
    settle_activation = _operation(
        calls.settle_activation, wire.SettleActivation, lambda services: services.launches.settle
    )

    def __init__(self, services: Services, caller: Caller) -> None:
        self.services, self.caller = services, caller

    async def list_bridge_sessions(self) -> wire.Sessions:
        return await self.services.bridges.sessions(self.caller)


class Line(ABC):
    """What a bridge says to one workspace of one server.  Every call may raise WakelineError."""

    def __init__(self, workspace: str, bridge_id: str, server: Client | Within) -> None:
        self.workspace = workspace
        self._bridge_id = bridge_id
        self._server = server

    async def attend(self, transports: Sequence[str], *, started: bool) -> wire.BridgeAttended:
        return await self._server.attend_bridge(self._bridge_id, VERSION, transports=list(transports), started=started)

    async def leave(self) -> None:
        await self._server.leave_bridge(self._bridge_id)

    async def sessions(self) -> list[wire.SessionView]:
        return (await self._server.list_bridge_sessions()).sessions

    async def claim(self, limit: int) -> list[wire.RingView]:
        return (await self._server.claim_rings(self._bridge_id, limit=limit)).rings

    async def settle(self, ring: wire.RingView, result: str, reason: str | None, detail: str | None) -> None:
        await self._server.settle_ring(
            self._bridge_id, ring.delivery_id, ring.fence, result, reason=reason, detail=detail
        )

    async def report(self, observations: list[wire.ObservationSaid]) -> None:
        await self._server.report_observations(self._bridge_id, [msgspec.to_builtins(one) for one in observations])

    async def announce(self, session_id: str, turn_id: str | None, shown: tuple[str, ...]) -> wire.Announced:
        return await self._server.announce_turn(self._bridge_id, session_id, turn_id=turn_id, shown=list(shown))

    async def claim_activations(self, limit: int) -> wire.ActivationOrders:
        return await self._server.claim_activations(self._bridge_id, limit=limit)

    async def start_activation(
        self, activation_id: str, fence: int, pid: int, started_at: datetime | None, session: Named | None
    ) -> bool:
        """Answers whether it is not ours any more."""
        told = await self._server.start_activation(
            self._bridge_id, activation_id, fence, pid, pid_started_at=started_at, session=session
        )
        return told.stale

    async def settle_activation(
        self,
        activation_id: str,
        fence: int,
        end: str,
        *,
        reason: str | None,
        exit_status: int | None,
        output: str | None,
        session: Named | None,
    ) -> None:
        await self._server.settle_activation(
            self._bridge_id,
            activation_id,
            fence,
            end,
            reason=reason,
            exit_status=exit_status,
            output=output,
            session=session,
        )

    @abstractmethod
    def doorbells(self, after: str) -> AsyncIterator[Knock]:
        """A knock each time that there may be something to do, until the connection ends."""

    @abstractmethod
    async def heartbeat(self, token: str, said: dict[str, Any]) -> tuple[str, wire.Attended]:
        """In an agent's own name; answers its handle too."""

    @abstractmethod
    async def end(self, token: str, session_id: str) -> None:
        """A session, in its agent's own name."""

    @abstractmethod
    async def close(self) -> None:
        """Nothing is said after this."""


class LocalLine(Line):
    def __init__(self, services: Services, workspace: Workspace, host: str, bridge_id: str) -> None:
        self._services = services
        self._caller = Caller(workspace.workspace_id, workspace.name, SYSTEM, Kind.SYSTEM, BRIDGE_ROLE, host=host)
        super().__init__(workspace.name, bridge_id, Within(services, self._caller))

    async def doorbells(self, after: str) -> AsyncIterator[Knock]:
        """What was missed does not matter here: whoever begins to listen looks first."""
        hub = self._services.hub
        stream = await hub.attach(self._caller)
        try:
            yield Knock(after)
            while not stream.closed:
                await stream.wait()
                rows = [one.entry.log for one in stream.queue if one is not None]
                stream.queue.clear()
                for row in rows:
                    yield Knock(after, _unwanted(row.kind, msgspec.json.decode(row.data or "{}")))
        finally:
            hub.leave(stream)

    async def heartbeat(self, token: str, said: dict[str, Any]) -> tuple[str, wire.Attended]:
        caller = await self._agent(token)
        request = msgspec.convert(said, wire.HeartbeatSession)
        return caller.handle, await self._services.sessions.heartbeat(caller, request)

    async def end(self, token: str, session_id: str) -> None:
        await self._services.sessions.end(await self._agent(token), session_id, wire.EndSession())

    async def _agent(self, token: str) -> Caller:
        caller = await self._services.identity.verify(token)
        if caller.host is not None or caller.workspace != self.workspace:
            raise Forbidden("CLAIM_MISMATCH", "A companion needs its agent's own token.", rule="claims")
        return caller

    async def close(self) -> None:
        pass


class RemoteLine(Line):
    """With a bridge's token.  Agents' tokens are used for their own sessions only, on connections of their own."""

    def __init__(self, workspace: str, bridge_id: str, *, url: str | None, socket: str | None, token: str) -> None:
        self._place: dict[str, Any] = {"url": url} if url is not None else {"socket": socket}
        self._client = Client(**self._place, token=token)
        self._handles: dict[str, str] = {}  # by token
        super().__init__(workspace, bridge_id, self._client)

    async def doorbells(self, after: str) -> AsyncIterator[Knock]:
        events = self._client.events(after=after)
        yield Knock(after)
        async for event in events:
            yield Knock(str(events.position), _unwanted(event.kind, event.data or {}))

    async def heartbeat(self, token: str, said: dict[str, Any]) -> tuple[str, wire.Attended]:
        async with Client(**self._place, token=token) as agent:
            if token not in self._handles:
                self._handles[token] = (await agent.whoami()).handle
            return self._handles[token], await agent.heartbeat_session(**said)

    async def end(self, token: str, session_id: str) -> None:
        async with Client(**self._place, token=token) as agent:
            await agent.end_session(session_id)

    async def close(self) -> None:
        await self._client.close()
        await asyncio.sleep(0)


def _unwanted(kind: str, data: dict[str, Any]) -> tuple[str, str] | None:
    return (data["session_id"], data["mark"]) if kind == UNWANTED else None
