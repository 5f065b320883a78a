"""Everything that we use of the SDK without its leave, in one place.  A test fails when the SDK changes under it.

The SDK has no public way from a request to its connection, nor from a session's id to its end or to its open stream.
"""

from __future__ import annotations

from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http import GET_STREAM_KEY
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

VERSION = "2.3"


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    return ctx.session._connection  # noqa: SLF001 - see above


def is_handshake(connection: Connection) -> bool:
    """Of the older era: a session with a life of its own, which can be told things outside of a request."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS  # noqa: PLC0415 - beside its only use

    return connection.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS


def has_stream(manager: StreamableHTTPSessionManager, session_id: str) -> bool:
    """Has its client a GET stream open?  Without one, what is written outside of a request is dropped."""
    transport = manager._server_instances.get(session_id)  # noqa: SLF001 - see above
    return transport is not None and GET_STREAM_KEY in transport._request_streams  # noqa: SLF001 - see above


async def end_session(manager: StreamableHTTPSessionManager, session_id: str) -> None:
    """As if the client had ended it: its streams close, its id answers 404."""
    transport = manager._server_instances.get(session_id)  # noqa: SLF001 - see above
    if transport is not None:
        await manager._discard_session(session_id, transport)  # noqa: SLF001 - see above
