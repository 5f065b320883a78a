"""A server, agents with tokens, and companions that stand for harnesses: what tests of the bridge have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

from wakeline.client import Client
from wakeline.companion import Companion
from wakeline.endpoint import find_seats
from wakeline.testing.server import ServerProcess
from wakeline.wire import DeliveryView
from wakeline.wire.seat import RingSaid

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
    """A companion that takes every ring, unless it is told to do otherwise."""

    def __init__(self, path: str, token: str, native_id: str, **hello: Any) -> None:
        given = {"native_id": native_id, "version": "1", "transport": "seat", "resumable": True, "presence": "idle"}
        self.rings: asyncio.Queue[RingSaid] = asyncio.Queue()
        self.answer: tuple[Any, str | None] | None = ("accepted", None)
        self.companion = Companion(path, token, on_ring=self._rung, **{**given, **hello})

    async def _rung(self, ring: RingSaid) -> tuple[Any, str | None] | None:
        await self.rings.put(ring)
        return self.answer

    async def __aenter__(self) -> Self:
        async def connected() -> bool:
            try:
                await self.companion.__aenter__()
            except (ConnectionError, FileNotFoundError):
                return False  # the bridge has just begun
            return True

        await eventually(connected)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.companion.close()

    async def next(self) -> RingSaid:
        return await asyncio.wait_for(self.rings.get(), PATIENCE)

    async def turn(self, text: str, turn_id: str = "t") -> None:
        """A whole turn that begins with this prompt."""
        await self.companion.start_turn(text, turn_id)
        await self.companion.end_turn(turn_id)


async def eventually(reached: Callable[[], Awaitable[bool]], patience: float = PATIENCE) -> None:
    """What another process does is waited for, with a bound."""
    async with asyncio.timeout(patience):
        while not await reached():  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.05)
