"""MCP Events, a draft (SEP-3415), behind the setting `mcp_events`: list, poll and stream what comes into the inbox.

A cursor is a position of the log, so nothing is missed between two polls.  An occurrence tells that mail came and from
whom, never its body.  Delivery to a URL is in `callbacks.py`.

A stream says where it begins, and whether something was passed over (`active`).  It is `terminated` when the right to
it ends.  When the server stops, or the client did not keep up, only its result comes: whoever opens it again goes on
from its cursor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import Field

from wakeline import calls
from wakeline.errors import Gone, WakelineError
from wakeline.faces.mcp import callbacks
from wakeline.faces.mcp.arguments import WAIT
from wakeline.faces.mcp.backend import Backend
from wakeline.faces.mcp.results import without_nulls
from wakeline.service import Ear, Push

NAME = "inbox.mail"
ABOUT = "Mail came into your inbox. Read it with read_messages."
HEARTBEAT_SECONDS = 20.0
NEXT_POLL_MS = 5_000
ENDED = {"code": callbacks.FORBIDDEN, "message": "The right to listen has ended."}
CAPABILITIES: dict[str, dict[str, Any]] = {"events": {}, "extensions": {"io.modelcontextprotocol/events": {}}}
LISTED = {
    "name": NAME,
    "description": ABOUT,
    "delivery": ["poll", "push", "webhook"],
    "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    "payloadSchema": {"type": "object", "properties": {"message_id": {"type": "string"}, "sender": {"type": "string"}}},
}
Context = ServerRequestContext[Any, Any]


class EventParams(types.RequestParams):
    name: str
    arguments: dict[str, Any] | None = None
    cursor: str | None = None
    max_events: int | None = None
    timeout_ms: int | None = None
    max_age_ms: int | None = Field(default=None, ge=0)


class NoteParams(types.NotificationParams):
    subscription: str | int
    event: dict[str, Any] | None = None
    cursor: str | None = None
    truncated: bool | None = None
    error: dict[str, Any] | None = None


class Note(types.Notification[NoteParams, str]):
    method: str
    params: NoteParams


async def poll(params: EventParams, backend: Backend) -> dict[str, Any]:
    _check(params)
    seconds = min((params.timeout_ms or 0) / 1000, WAIT)
    floor = await _floor(params, backend)
    cursor = params.cursor or await _now(backend)
    found = await _read(backend, cursor, seconds, floor)
    del found["start"]
    events = found["events"][: params.max_events or None]
    more = len(events) < len(found["events"]) or found["hasMore"]
    cursor = events[-1]["cursor"] if more and events else found["cursor"]
    return {**found, "events": events, "cursor": cursor, "hasMore": more, "nextPollMs": 0 if more else NEXT_POLL_MS}


async def stream(ctx: Context, params: EventParams, backend: Backend) -> dict[str, Any]:
    """Until the client hangs up or does not keep up, the right to listen ends, or the server stops."""
    _check(params)
    floor = await _floor(params, backend)
    found = await _read(backend, params.cursor or await _now(backend), 0, floor)
    cursor = found["start"]
    await _note(ctx, "active", cursor=cursor, truncated=found["truncated"])
    behind = asyncio.Event()
    async with backend.pushes(behind.set, Ear(lambda _: False)) as pushes:  # mail is told of; wakes are not
        async for why in _looks(pushes):
            if why == "heartbeat":
                await _note(ctx, "heartbeat", cursor=cursor)
            else:
                cursor = await _tell(ctx, backend, cursor, floor)
    if not (behind.is_set() or callbacks.in_process(backend).services.hub.closed):
        await _note(ctx, "terminated", cursor=cursor, error=ENDED)
    return {}


async def _tell(ctx: Context, backend: Backend, cursor: str, floor: datetime | None) -> str:
    """Of all that came since; answers up to where."""
    while True:
        found = await _read(backend, cursor, 0, floor)
        if found["truncated"]:
            await _note(ctx, "active", cursor=found["start"], truncated=True)
        for event in found["events"]:
            await _note(ctx, "event", event=event, cursor=event["cursor"])
        cursor = found["cursor"]
        if not found["hasMore"]:
            return cursor


async def _looks(pushes: AsyncIterator[Push]) -> AsyncIterator[Literal["look", "heartbeat"]]:
    """Look once at the start and at every hint; in between, show life."""
    yield "look"
    hint: asyncio.Task[Push] | None = None
    try:
        while True:
            hint = hint or asyncio.ensure_future(anext(pushes))
            done, _ = await asyncio.wait([hint], timeout=HEARTBEAT_SECONDS)
            if not done:
                yield "heartbeat"
                continue
            try:
                hint.result()
            except StopAsyncIteration:
                return
            hint = None
            yield "look"
    finally:
        if hint is not None:
            hint.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await hint


def _check(params: EventParams | callbacks.CallbackParams) -> None:
    if params.name != NAME:
        raise MCPError(callbacks.NOT_FOUND, f"There is no event {params.name[:80]!r}.", {"kind": "event"})
    if params.arguments:
        raise MCPError(types.INVALID_PARAMS, f"The event {NAME} takes no arguments.")


async def _now(backend: Backend) -> str:
    position: str = (await _send(backend, None, 0))["position"]
    return position


async def _floor(params: EventParams, backend: Backend) -> datetime | None:
    """What is older is passed over.  Without a cursor there is nothing to replay, so nothing is too old."""
    if params.max_age_ms is None or params.cursor is None:
        return None
    return await callbacks.in_process(backend).services.inboxes.before(params.max_age_ms)


async def _read(backend: Backend, cursor: str, seconds: float, floor: datetime | None) -> dict[str, Any]:
    """`start`: the position after which nothing is passed over."""
    try:
        found = await _send(backend, cursor, seconds)
    except Gone as error:
        tip = str(error.details["position"])
        return {"events": [], "start": tip, "cursor": tip, "truncated": True, "hasMore": False}
    epoch = found["position"].rpartition("-")[0]
    events = [occurrence(mail, epoch) for mail in found["mail"]]
    whole = len(events) < calls.SHOWN_MAIL
    old = [one for one in events if floor is not None and datetime.fromisoformat(one["timestamp"]) < floor]
    return {
        "events": [one for one in events if one not in old],
        "start": old[-1]["cursor"] if old else cursor,
        "cursor": found["position"] if whole else events[-1]["cursor"],
        "truncated": bool(old),
        "hasMore": not whole,
    }


async def _send(backend: Backend, cursor: str | None, seconds: float) -> Any:
    try:
        return await backend.send(calls.wait_for_mail(after=cursor, wait_seconds=seconds))
    except Gone:
        raise
    except WakelineError as error:
        raise MCPError(types.INVALID_PARAMS, error.message, {"code": error.code, "hint": error.hint}) from error


def occurrence(mail: Mapping[str, Any], epoch: str) -> dict[str, Any]:
    return {
        "eventId": mail["message_id"],
        "name": NAME,
        "timestamp": mail["created_at"],
        "data": without_nulls(dict(mail)),
        "cursor": f"{epoch}-{mail['log_id']}",
    }


async def _note(ctx: Context, kind: str, **fields: Any) -> None:
    assert ctx.request_id is not None  # noqa: S101 - only requests are answered with a stream
    params = NoteParams(subscription=ctx.request_id, **fields)
    note: Any = Note(method=f"notifications/events/{kind}", params=params)
    await ctx.session.send_notification(note, related_request_id=ctx.request_id)


class Events:
    """The handlers of the draft's requests."""

    def __init__(self, backend_of: Callable[[Context], Backend]) -> None:
        self._backend_of = backend_of

    async def list(self, ctx: Context, params: object) -> dict[str, Any]:
        return {"events": [LISTED]}

    async def poll(self, ctx: Context, params: EventParams) -> dict[str, Any]:
        return await poll(params, self._backend_of(ctx))

    async def stream(self, ctx: Context, params: EventParams) -> dict[str, Any]:
        return await stream(ctx, params, self._backend_of(ctx))

    async def subscribe(self, ctx: Context, params: callbacks.CallbackParams) -> dict[str, Any]:
        _check(params)
        return await callbacks.subscribe(params, self._backend_of(ctx))

    async def unsubscribe(self, ctx: Context, params: callbacks.CallbackParams) -> dict[str, Any]:
        _check(params)
        return await callbacks.unsubscribe(params, self._backend_of(ctx))


def register(server: Server[None], backend_of: Callable[[Context], Backend]) -> None:
    events = Events(backend_of)
    server.add_request_handler("events/list", types.PaginatedRequestParams, events.list)
    server.add_request_handler("events/poll", EventParams, events.poll)
    server.add_request_handler("events/stream", EventParams, events.stream)
    server.add_request_handler("events/subscribe", callbacks.CallbackParams, events.subscribe)
    server.add_request_handler("events/unsubscribe", callbacks.CallbackParams, events.unsubscribe)
