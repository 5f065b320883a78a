"""Server-sent events: the log as the caller may see it, live, resumable by position.

Each log row becomes one frame, encoded once and shared by all receivers.  A receiver that does not read is cut off and
resumes from its last id; nobody else waits for it.  There is no task per idle receiver beyond the one that serves it.
"""

from __future__ import annotations

from collections import deque

from wakeline import wire
from wakeline.errors import Unavailable
from wakeline.faces.http.answers import Headers, Send, encode
from wakeline.faces.http.connection import Connection
from wakeline.service import Caller, Published, Services, Stream
from wakeline.service.events import event_view

KEEP_ALIVE = b": keep-alive\n\n"
CONNECTED = b": connected\n\n"
FUTURE = b": the position lay in the future; this begins at the end\n\n"
WRITE = 65_536


def frame(view: wire.EventView) -> bytes:
    return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (view.epoch.encode(), view.log_id, view.kind.encode(), encode(view))


def encoded(published: Published) -> bytes:
    if published.encoded is None:
        published.encoded = frame(event_view(published))
    return published.encoded


def _headers(request_id: str, position: str) -> Headers:
    return [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
        (b"x-request-id", request_id.encode()),
        (b"wakeline-position", position.encode()),
    ]


async def serve(
    services: Services, caller: Caller, after: str | None, connection: Connection, send: Send, request_id: str
) -> None:
    stream = services.hub.open(caller, connection.abort)
    connection.on_close = stream.close
    try:
        start = await services.logs.start(caller, after)
        headers = _headers(request_id, f"{start.epoch}-{start.after}")
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _write(send, FUTURE if start.clamped else CONNECTED)
        await _catch_up(services, stream, start.after, start.epoch, send)
        # No await between the end of catching up and joining: nothing can be missed or doubled.
        services.hub.join(stream, start.after)
        while not (stream.closed or connection.closed):
            await stream.wait()
            while stream.queue and not stream.closed:
                await _write(send, _drain(stream.queue))
    finally:
        services.hub.leave(stream)
    if not connection.closed:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _catch_up(services: Services, stream: Stream, after: int, epoch: str, send: Send) -> None:
    try:
        async for rows in services.logs.catch_up(stream.caller, after):
            queue: deque[Published | None] = deque(Published(row, epoch) for row in rows)
            while queue and not stream.closed:
                await _write(send, _drain(queue))
            if stream.closed:
                return
    except Unavailable:
        stream.close()  # the answer has begun: it ends here, and the listener resumes from its last id


def _drain(queue: deque[Published | None]) -> bytes:
    """As many frames as one write should carry: what waits in a queue is shared, what is written is a copy."""
    frames: list[bytes] = []
    size = 0
    while queue and size < WRITE:
        item = queue.popleft()
        frames.append(KEEP_ALIVE if item is None else encoded(item))
        size += len(frames[-1])
    return b"".join(frames)


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
