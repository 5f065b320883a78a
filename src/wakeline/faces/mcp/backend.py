"""Where the tools' calls go: into this process's services, or (see `remote`) over a socket to a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec

from wakeline.calls import Call
from wakeline.faces.http.routing import Router, perform
from wakeline.service import Caller, Ear, Push, Services
from wakeline.service.pushes import received


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

    @asynccontextmanager
    async def pushes(self, on_overflow: Callable[[], None], ear: Ear) -> AsyncIterator[AsyncIterator[Push]]:
        async with self.services.pushes.open(self.caller, on_overflow, ear) as stream:
            yield received(stream)
