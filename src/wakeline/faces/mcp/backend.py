"""Where the tools' calls go: into this process's services, or (see `remote`) over a socket to a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec

from wakeline import wire
from wakeline.calls import Call
from wakeline.errors import WakelineError
from wakeline.faces.http.routing import Router, perform
from wakeline.service import Caller, Ear, Push, Services
from wakeline.service.pushes import received
from wakeline.service.views import posted


class Backend(Protocol):
    """One caller's way to the services."""

    async def send(self, call: Call) -> Any:
        """The answer as plain data, or the error that refused it."""

    def pushes(self, on_overflow: Callable[[], None], ear: Ear) -> AbstractAsyncContextManager[AsyncIterator[Push]]:
        """The caller's hints, until the right to them ends; of wakes, those that the ear takes when they come."""


class InProcess:
    def __init__(self, services: Services, router: Router, caller: Caller) -> None:
        self.services = services
        self.caller = caller
        self._router = router

    async def send(self, call: Call) -> Any:
        route = self._router.exact.get((call.method, call.path))
        parameters: dict[str, str] = {}
        if route is None:
            route, parameters = self._router.find(call.method, unquote(call.path))
        query = call.target.partition("?")[2].encode() if call.query else b""
        request = route.parse(self.services, self.caller, parameters, query, call.body or b"")
        return msgspec.to_builtins(await perform(route.operation, request))

    async def post(self, asked: Callable[[], Call]) -> Any:
        """The same for an agent's message, which is worked out when it is sent to the writer (`Messages.begin`)."""
        read = partial(self._message, asked)
        try:
            accepted = await self.services.messages.begin(self.caller, read)
        except WakelineError as refusal:
            await self.services.messages.bury(self.caller, read, refusal)
            await self.services.audit.refused(self.caller, refusal)
            raise
        return msgspec.to_builtins(posted(accepted))

    def _message(self, asked: Callable[[], Call]) -> wire.PostMessage:
        call = asked()
        route = self._router.exact[call.method, call.path]
        request: wire.PostMessage = route.parse(self.services, self.caller, {}, b"", call.body or b"").body
        return request

    @asynccontextmanager
    async def pushes(self, on_overflow: Callable[[], None], ear: Ear) -> AsyncIterator[AsyncIterator[Push]]:
        async with self.services.pushes.open(self.caller, on_overflow, ear) as stream:
            yield received(stream)
