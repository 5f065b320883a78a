"""What we use of the SDK without its leave is still there: `wakeline.faces.mcp.sdk` is the only module that does."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp.server import connection, session, streamable_http, streamable_http_manager
from mcp.server.lowlevel import Server

import wakeline.faces.mcp
from wakeline.faces.mcp import sdk

FACE = Path(wakeline.faces.mcp.__file__).parent


def test_the_sdk_is_the_version_that_was_looked_at() -> None:
    assert importlib.metadata.version("mcp").startswith(f"{sdk.VERSION}.")


def test_a_request_still_knows_its_connection() -> None:
    assert "self._connection = connection" in inspect.getsource(session.ServerSession.__init__)
    assert {"state", "exit_stack", "protocol_version"} <= set(connection.Connection.__annotations__)


async def test_a_session_can_still_be_ended_by_its_id() -> None:
    manager = streamable_http_manager.StreamableHTTPSessionManager(Server("x"))
    await sdk.end_session(manager, "nobody")  # it looks where sessions are kept
    assert inspect.iscoroutinefunction(manager._discard_session)  # noqa: SLF001 - the point of this test
    assert isinstance(manager._session_creation_lock, anyio.Lock)  # noqa: SLF001 - what the adapter relies on


async def test_an_open_stream_is_still_found_where_the_router_looks() -> None:
    manager = streamable_http_manager.StreamableHTTPSessionManager(Server("x"))
    transport = manager._admit_session(None)  # noqa: SLF001 - the point of this test
    assert transport is not None
    assert transport.mcp_session_id is not None
    assert not sdk.has_stream(manager, transport.mcp_session_id)
    sending, receiving = anyio.create_memory_object_stream[streamable_http.EventMessage]()
    with sending, receiving:
        streams = transport._request_streams  # noqa: SLF001 - as above
        streams[streamable_http.GET_STREAM_KEY] = (sending, receiving)
        assert sdk.has_stream(manager, transport.mcp_session_id)
    assert not sdk.has_stream(manager, "nobody")


@pytest.mark.parametrize("path", sorted(FACE.glob("*.py")), ids=lambda path: path.stem)
def test_nobody_else_uses_its_private_parts(path: Path) -> None:
    if path.stem != "sdk":
        assert not re.search(r"noqa: SLF001|from mcp[.\w]*\._| _connection\b", path.read_text())


@pytest.mark.parametrize("module", ["wakeline.runtime.bootstrap", "wakeline.faces.cli.main", "wakeline.faces.cli.mcp"])
def test_nobody_pays_for_the_sdk_before_mcp_is_spoken(module: str) -> None:
    program = f"import sys, {module}; sys.exit('mcp' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
