"""`subscriptions/listen`, the push of the stateless era: one request whose answer is a stream of cues.

The URI of the inbox is the same for everybody and means each caller's own, so every listener has a bus of its own that
carries its caller's hints and nothing else.  Asking for another URI is refused.  Who asks only for changed lists, as
Claude Code does, is told of nothing: the SDK passes on what was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError

from wakeline.errors import WakelineError
from wakeline.faces.mcp.backend import Backend
from wakeline.faces.mcp.resource import URI
from wakeline.service import Ear, Push

BUFFER = 64


class _Line:
    """The SDK's bus for exactly one listener."""

    def __init__(self) -> None:
        self._listener: Callable[[ServerEvent], None] | None = None

    async def publish(self, event: ServerEvent) -> None:
        if self._listener is not None:
            self._listener(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        self._listener = listener

        def unsubscribe() -> None:
            self._listener = None

        return unsubscribe


async def listen(
    ctx: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams, backend: Backend
) -> types.SubscriptionsListenResult:
    uris = params.notifications.resource_subscriptions or ()
    refuse_others(uris)
    line = _Line()
    handler = ListenHandler(line, max_buffered_events=BUFFER)
    try:
        ear = Ear(lambda _: URI in uris, lambda: URI in uris)
        async with backend.pushes(handler.close, ear) as pushes, asyncio.TaskGroup() as group:
            forwarding = group.create_task(_forward(pushes, line, handler))
            result = await handler(ctx, params)
            forwarding.cancel()
            return result
    except WakelineError as error:
        raise MCPError(types.INTERNAL_ERROR, error.message, {"code": error.code, "hint": error.hint}) from error


async def _forward(pushes: AsyncIterator[Push], line: _Line, handler: ListenHandler) -> None:
    async for _ in pushes:
        await line.publish(ResourceUpdated(uri=URI))
    handler.close()  # the right to listen has ended, or the server stops: the stream ends in order


def refuse_others(uris: list[str] | tuple[str, ...]) -> None:
    for uri in uris:
        if uri != URI:
            raise MCPError(types.INVALID_PARAMS, f"There is nothing to watch at {str(uri)[:200]!r}; {URI} is yours.")
