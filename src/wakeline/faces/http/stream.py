"""Server-sent events: the log as the caller may see it, live, resumable by position; and wakes, which are only hints.

Each log row becomes one frame, encoded once and shared by all receivers.  A receiver that does not read is cut off and
resumes from its last id; nobody else waits for it.  There is no task per idle receiver beyond the one that serves it,
and while that one waits, what comes is written without waking it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from wakeline import wire
from wakeline.errors import Gone, Unavailable
from wakeline.faces.http.answers import Headers, Send, encode
from wakeline.faces.http.connection import Connection
from wakeline.service import Caller, Ear, Published, Push, Services, Stream
from wakeline.service.events import event_view

KEEP_ALIVE = b": keep-alive\n\n"
CONNECTED = b": connected\n\n"
FUTURE = b": the position lay in the future; this begins at the end\n\n"
WRITE = 65_536
T = TypeVar("T")


def frame(view: wire.EventView) -> bytes:
    return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (view.epoch.encode(), view.log_id, view.kind.encode(), encode(view))


def encoded(published: Published) -> bytes:
    if published.encoded is None:
        published.encoded = frame(event_view(published))
    return published.encoded


def encoded_push(push: Push) -> bytes:
    """No id: a hint that was missed is not repeated, the inbox has it all."""
    if push.encoded is None:
        push.encoded = b"event: %s\ndata: %s\n\n" % (push.kind.encode(), encode(push.event))
    return push.encoded


def _headers(request_id: str) -> Headers:
    return [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
        (b"x-request-id", request_id.encode()),
    ]


async def serve(
    services: Services, caller: Caller, after: str | None, connection: Connection, send: Send, request_id: str
) -> None:
    stream = services.hub.open(caller, connection.abort)
    connection.on_close = stream.close
    try:
        start = await services.logs.start(caller, after)
        headers = [*_headers(request_id), (b"wakeline-position", f"{start.epoch}-{start.after}".encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _write(send, FUTURE if start.clamped else CONNECTED)
        await _catch_up(services, stream, start.after, start.epoch, send)
        # No await between the end of catching up and joining: nothing can be missed or doubled.
        services.hub.join(stream, start.after)
        await _follow(stream, connection, send, encoded)
    finally:
        services.hub.leave(stream)
    await _end(connection, send)


async def serve_wakes(
    services: Services, caller: Caller, query: wire.WakesQuery, connection: Connection, send: Send, request_id: str
) -> None:
    events = None if query.events is None else frozenset(query.events.split(","))
    ear = Ear(lambda event_type: events is None or event_type in events)
    async with services.pushes.open(caller, connection.abort, ear) as stream:
        connection.on_close = stream.close
        await send({"type": "http.response.start", "status": 200, "headers": _headers(request_id)})
        await _write(send, CONNECTED)
        await _follow(stream, connection, send, encoded_push)
    await _end(connection, send)


async def _follow(stream: Stream[T], connection: Connection, send: Send, encoding: Callable[[T], bytes]) -> None:
    def take(item: T) -> bool:
        if connection.is_stuck:
            return False
        try:
            body = encoding(item)
        except Exception:  # noqa: BLE001 - a bug, and the stream's own: its task meets it again, and nobody else
            return False
        _write_now(send, body)
        return True

    while not (stream.closed or connection.closed):
        stream.take = take  # only now: what is being written must not be overtaken
        await stream.wait()
        stream.take = None
        while stream.queue and not stream.closed:
            await _write(send, _drain(stream.queue, encoding))


async def _end(connection: Connection, send: Send) -> None:
    if not connection.closed:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _catch_up(services: Services, stream: Stream[Published], after: int, epoch: str, send: Send) -> None:
    try:
        async for rows in services.logs.catch_up(stream.caller, after):
            queue: deque[Published | None] = deque(Published(row, epoch) for row in rows)
            while queue and not stream.closed:
                await _write(send, _drain(queue, encoded))
            if stream.closed:
                return
    except (Unavailable, Gone):
        # The answer has begun: it ends here, and the listener resumes from its last id, or is told that it is gone.
        stream.close()


def _drain(queue: deque[T | None], encoding: Callable[[T], bytes]) -> bytes:
    """As many frames as one write should carry: what waits in a queue is shared, what is written is a copy."""
    frames: list[bytes] = []
    size = 0
    while queue and size < WRITE:
        item = queue.popleft()
        frames.append(KEEP_ALIVE if item is None else encoding(item))
        size += len(frames[-1])
    return b"".join(frames)


def _write_now(send: Send, body: bytes) -> None:
    """To who is known to read: writing then waits for nothing, so that it needs no task."""
    try:
        _write(send, body).send(None)
    except StopIteration:
        return
    raise RuntimeError("A write that waits for nothing has waited.")


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
