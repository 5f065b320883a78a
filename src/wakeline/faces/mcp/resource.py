"""The inbox as a resource: what is unread, without the bodies.  Reading it marks nothing."""

from __future__ import annotations

import mcp_types as types
import msgspec

from wakeline import calls
from wakeline.faces.mcp.backend import Backend
from wakeline.faces.mcp.results import NOTE, without_nulls

URI = "wakeline://inbox"
KIND = "application/json"
ABOUT = "What is unread in your inbox. Subscribe to hear of new mail."


def listed() -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[types.Resource(uri=URI, name="inbox", description=ABOUT, mime_type=KIND)]
    )


async def read(backend: Backend) -> types.ReadResourceResult:
    found = without_nulls(await backend.send(calls.wait_for_mail()))
    text = msgspec.json.encode({"note": NOTE, **found}).decode()
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=URI, mime_type=KIND, text=text)])
