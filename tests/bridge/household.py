"""A server, agents with tokens, and companions that stand for harnesses: what tests of the bridge have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import repeat
from pathlib import Path
from typing import Any, Self

import msgspec

from wakeline.client import Client
from wakeline.endpoint import find_seats
from wakeline.harnesses.seat import Parting, Seat
from wakeline.testing.server import ServerProcess
from wakeline.wire import DeliveryView
from wakeline.wire import seat as said

PATIENCE = 20.0


class House:
    """One server and whoever a test asks for."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.clients: list[Client] = []
        self.tokens: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self.human = self._client(None)
        for handle in ("@ann", "@bob"):
            await self.add(handle)
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            await client.close()

    def _client(self, token: str | None) -> Client:
        client = Client(socket=self.server.socket, token=token)
        self.clients.append(client)
        return client

    async def with_role(self, handle: str, role: str) -> Client:
        await self.human.add_agent(handle, roles=[role])
        return self._client((await self.human.create_token(handle, role=role)).token)

    async def add(self, handle: str) -> Client:
        token = (await self.human.add_agent(handle)).token
        assert token is not None
        self.tokens[handle] = token
        client = self._client(token)
        setattr(self, handle.removeprefix("@"), client)
        return client

    ann: Client
    bob: Client

    def seats(self, data: Path | None = None) -> str:
        return find_seats(str(data or self.server.data), {})

    def session(self, handle: str = "@bob", native_id: str = "n1", data: Path | None = None, **hello: Any) -> Session:
        return Session(self.seats(data), self.tokens[handle], native_id, **hello)

    async def mail(self, **fields: Any) -> str:
        given = {"to": ["@bob"], "subject": "news", **fields}
        return (await self.ann.post_message("the body itself", **given)).message_id

    async def deliveries(self, client: Client | None = None) -> list[DeliveryView]:
        """Oldest first."""
        return (await (client or self.bob).list_deliveries()).deliveries[::-1]

    async def outcomes(self) -> list[tuple[str, str | None]]:
        return [(one.step, one.outcome) for one in await self.deliveries()]

    async def until_outcomes(self, *expected: tuple[str, str | None]) -> None:
        async def reached() -> bool:
            return await self.outcomes() == list(expected)

        await eventually(reached)


class Session:
    """A companion that takes every ring, unless it is told to do otherwise.  It sits down once."""

    def __init__(self, path: str, token: str, native_id: str, **hello: Any) -> None:
        given: dict[str, Any] = {"version": "1", "transport": "seat", "resumable": True, "presence": "idle", **hello}
        self._hello = said.Hello(protocol=said.PROTOCOL, token=token, harness="reference", native_id=native_id, **given)
        self.rings: asyncio.Queue[said.RingSaid] = asyncio.Queue()
        self.kept: set[str] = set()  # marks that can still be called off
        self.called_off: asyncio.Queue[str] = asyncio.Queue()
        self.answer: tuple[said.Rang, str | None] | None = ("accepted", None)
        self.seat = Seat(lambda: path, self, lambda: repeat(0.05))
        self._welcomed: asyncio.Queue[said.Welcome] = asyncio.Queue()
        self._sitting: asyncio.Task[Parting] | None = None

    # -- what the seat asks of it -------------------------------------------------------------------------------------

    def hello(self) -> said.Hello:
        return self._hello

    def welcomed(self, welcome: said.Welcome) -> None:
        self.welcome = welcome
        self._welcomed.put_nowait(welcome)

    async def rung(self, ring: said.RingSaid) -> said.Rung | None:
        await self.rings.put(ring)
        return self.answer and said.Rung(id=ring.id, result=self.answer[0], reason=self.answer[1])

    def withdrawn(self, mark: str) -> bool:
        self.called_off.put_nowait(mark)
        return mark in self.kept

    def announced(self, announce: said.AnnounceSaid) -> None:
        """Nobody waits for less than there is patience."""

    # -- what a test asks of it ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await eventually(self._has_sat_down)
        return self

    async def _has_sat_down(self) -> bool:
        """Not yet, if the bridge has just begun."""
        self._sitting = asyncio.create_task(self.seat.sit())
        welcomed = asyncio.create_task(self._welcomed.get())
        await asyncio.wait([self._sitting, welcomed], return_when=asyncio.FIRST_COMPLETED)
        assert welcomed.done() or self._sitting.result() is not Parting.REFUSED
        return welcomed.done() or not welcomed.cancel()

    async def __aexit__(self, *_: object) -> None:
        assert self._sitting is not None
        self._sitting.cancel()
        await asyncio.wait([self._sitting])

    @property
    def session_id(self) -> str:
        return self.welcome.session_id

    async def next(self) -> said.RingSaid:
        return await asyncio.wait_for(self.rings.get(), PATIENCE)

    def say_presence(self, presence: Any) -> None:
        self._become(presence)
        self.seat.say(said.PresenceSaid(presence=presence))

    def _become(self, presence: Any) -> None:
        self._hello = msgspec.structs.replace(self._hello, presence=presence)

    async def start_turn(self, text: str, turn_id: str = "t") -> said.AnnounceSaid:
        self._become("active")
        return await self.seat.ask(said.TurnStarted(text=text, turn_id=turn_id), timeout=PATIENCE)

    def end_turn(self, turn_id: str = "t", last: str = "") -> None:
        self._become("idle")
        self.seat.say(said.TurnEnded(turn_id=turn_id, last=last))

    async def turn(self, text: str, turn_id: str = "t") -> None:
        """A whole turn that begins with this prompt."""
        await self.start_turn(text, turn_id)
        self.end_turn(turn_id)


async def eventually(reached: Callable[[], Awaitable[bool]], patience: float = PATIENCE) -> None:
    """What another process does is waited for, with a bound."""
    async with asyncio.timeout(patience):
        while not await reached():  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.05)
