"""A bridge's line to a server, one for each workspace: in the same process, or over HTTP with a bridge's token.

Both speak of the same calls and answer with the same shapes, so the bridge does not know which one it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from wakeline import wire
from wakeline.client import Client
from wakeline.core.bridge import BRIDGE_ROLE
from wakeline.core.log import UNWANTED, Workspace
from wakeline.core.principal import SYSTEM, Caller, Kind
from wakeline.errors import Forbidden
from wakeline.service import Services
from wakeline.version import VERSION

_replace = msgspec.structs.replace


class Knock(NamedTuple):
    """`unwanted`: the session and the mark of a ring that nobody need be woken by any more.

    That never changes again, so it is told here and need not be asked for.  Who misses it is woken once for nothing.
    """

    position: str
    unwanted: tuple[str, str] | None = None


class Line(Protocol):
    """What a bridge says to one workspace of one server.  Every call may raise WakelineError."""

    @property
    def workspace(self) -> str: ...

    async def attend(self, transports: Sequence[str], *, started: bool) -> wire.BridgeAttended: ...

    async def leave(self) -> None: ...

    async def sessions(self) -> list[wire.SessionView]: ...

    async def claim(self, limit: int) -> list[wire.RingView]: ...

    async def settle(self, ring: wire.RingView, result: str, reason: str | None, detail: str | None) -> None: ...

    async def report(self, observations: list[wire.ObservationSaid]) -> None: ...

    async def announce(self, session_id: str, turn_id: str | None, shown: tuple[str, ...]) -> wire.Announced: ...

    async def claim_activations(self, limit: int) -> wire.ActivationOrders: ...

    async def start_activation(self, activation_id: str, fence: int, pid: int, started_at: datetime | None) -> bool:
        """Answers whether it is not ours any more."""
        ...

    async def settle_activation(
        self,
        activation_id: str,
        fence: int,
        end: str,
        *,
        reason: str | None,
        exit_status: int | None,
        output: str | None,
    ) -> None: ...

    def doorbells(self, after: str) -> AsyncIterator[Knock]:
        """A knock each time that there may be something to do, until the connection ends."""
        ...

    async def heartbeat(self, token: str, said: dict[str, Any]) -> tuple[str, wire.Attended]:
        """In an agent's own name; answers its handle too."""
        ...

    async def end(self, token: str, session_id: str) -> None: ...

    async def close(self) -> None: ...


class LocalLine:
    def __init__(self, services: Services, workspace: Workspace, host: str, bridge_id: str) -> None:
        self.workspace = workspace.name
        self._services = services
        self._bridge_id = bridge_id
        self._caller = Caller(workspace.workspace_id, workspace.name, SYSTEM, Kind.SYSTEM, BRIDGE_ROLE, host=host)

    async def attend(self, transports: Sequence[str], *, started: bool) -> wire.BridgeAttended:
        request = wire.AttendBridge(
            bridge_id=self._bridge_id, version=VERSION, transports=list(transports), started=started
        )
        return await self._services.bridges.attend(self._caller, request)

    async def leave(self) -> None:
        await self._services.bridges.leave(self._caller, wire.LeaveBridge(bridge_id=self._bridge_id))

    async def sessions(self) -> list[wire.SessionView]:
        return (await self._services.bridges.sessions(self._caller)).sessions

    async def claim(self, limit: int) -> list[wire.RingView]:
        request = wire.ClaimRings(bridge_id=self._bridge_id, limit=limit)
        return (await self._services.bridges.claim(self._caller, request)).rings

    async def settle(self, ring: wire.RingView, result: str, reason: str | None, detail: str | None) -> None:
        fields = {"delivery_id": ring.delivery_id, "fence": ring.fence, "result": result}
        said = {"bridge_id": self._bridge_id, "reason": reason, "detail": detail, **fields}
        await self._services.bridges.settle(self._caller, msgspec.convert(said, wire.SettleRing))

    async def report(self, observations: list[wire.ObservationSaid]) -> None:
        request = wire.ReportObservations(bridge_id=self._bridge_id, observations=observations)
        await self._services.bridges.report(self._caller, request)

    async def announce(self, session_id: str, turn_id: str | None, shown: tuple[str, ...]) -> wire.Announced:
        request = wire.AnnounceTurn(
            bridge_id=self._bridge_id, session_id=session_id, turn_id=turn_id, shown=list(shown)
        )
        return await self._services.bridges.announce(self._caller, request)

    async def claim_activations(self, limit: int) -> wire.ActivationOrders:
        request = wire.ClaimActivations(bridge_id=self._bridge_id, limit=limit)
        return await self._services.launches.claim(self._caller, request)

    async def start_activation(self, activation_id: str, fence: int, pid: int, started_at: datetime | None) -> bool:
        request = wire.StartActivation(
            bridge_id=self._bridge_id, activation_id=activation_id, fence=fence, pid=pid, pid_started_at=started_at
        )
        return (await self._services.launches.start(self._caller, request)).stale

    async def settle_activation(
        self,
        activation_id: str,
        fence: int,
        end: str,
        *,
        reason: str | None,
        exit_status: int | None,
        output: str | None,
    ) -> None:
        fields = {"activation_id": activation_id, "fence": fence, "end": end, "reason": reason}
        said = {"bridge_id": self._bridge_id, "exit_status": exit_status, "output": output, **fields}
        await self._services.launches.settle(self._caller, msgspec.convert(said, wire.SettleActivation))

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


class RemoteLine:
    """With a bridge's token.  Agents' tokens are used for their own sessions only, on connections of their own."""

    def __init__(self, workspace: str, bridge_id: str, *, url: str | None, socket: str | None, token: str) -> None:
        self.workspace = workspace
        self._bridge_id = bridge_id
        self._place: dict[str, Any] = {"url": url} if url is not None else {"socket": socket}
        self._client = Client(**self._place, token=token)
        self._handles: dict[str, str] = {}  # by token

    async def attend(self, transports: Sequence[str], *, started: bool) -> wire.BridgeAttended:
        return await self._client.attend_bridge(self._bridge_id, VERSION, transports=list(transports), started=started)

    async def leave(self) -> None:
        await self._client.leave_bridge(self._bridge_id)

    async def sessions(self) -> list[wire.SessionView]:
        return (await self._client.list_bridge_sessions()).sessions

    async def claim(self, limit: int) -> list[wire.RingView]:
        return (await self._client.claim_rings(self._bridge_id, limit=limit)).rings

    async def settle(self, ring: wire.RingView, result: str, reason: str | None, detail: str | None) -> None:
        await self._client.settle_ring(
            self._bridge_id, ring.delivery_id, ring.fence, result, reason=reason, detail=detail
        )

    async def report(self, observations: list[wire.ObservationSaid]) -> None:
        said = [msgspec.to_builtins(one) for one in observations]
        await self._client.report_observations(self._bridge_id, said)

    async def announce(self, session_id: str, turn_id: str | None, shown: tuple[str, ...]) -> wire.Announced:
        return await self._client.announce_turn(self._bridge_id, session_id, turn_id=turn_id, shown=list(shown))

    async def claim_activations(self, limit: int) -> wire.ActivationOrders:
        return await self._client.claim_activations(self._bridge_id, limit=limit)

    async def start_activation(self, activation_id: str, fence: int, pid: int, started_at: datetime | None) -> bool:
        told = await self._client.start_activation(
            self._bridge_id, activation_id, fence, pid, pid_started_at=started_at
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
    ) -> None:
        await self._client.settle_activation(
            self._bridge_id, activation_id, fence, end, reason=reason, exit_status=exit_status, output=output
        )

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
