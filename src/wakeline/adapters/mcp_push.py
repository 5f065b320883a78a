"""The MCP route: offer an event to the connections that its receiver has open on this node.  Level D2, a hint.

No harness of today starts a turn because of a notification, so nothing here ever claims more than that it was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from wakeline.core.parcel import Absent, Accepted, Parcel, Result

_decode = msgspec.json.Decoder(dict[str, Any]).decode

Offer = Callable[[int, str, Mapping[str, Any]], int]  # (workspace, handle, event) → how many connections took it


class McpPush:
    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    async def deliver(self, parcel: Parcel) -> Result:
        taken = self.hint(parcel)
        return Accepted(None, f"taken by {taken} connections") if taken else Absent()

    def hint(self, parcel: Parcel) -> int:
        """Beside another route: nobody need be there, and nothing comes of it."""
        return self._offer(parcel.workspace_id, parcel.handle, _decode(parcel.body))
