"""The MCP route: offer an event to the connections that its receiver has open on this node.  Level D2, a hint.

No harness of today starts a turn because of a notification, so nothing here ever claims more than that it was taken: by
a connection on which its client can be told of this event.
"""

from __future__ import annotations

from collections.abc import Callable

from wakeline.core.parcel import Absent, Accepted, Parcel, Result

Offer = Callable[[int, str, bytes], int]  # (workspace, handle, event) → how many connections took it


class McpPush:
    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    async def deliver(self, parcel: Parcel) -> Result:
        taken = self._offer(parcel.workspace_id, parcel.handle, parcel.body)
        return Accepted(None, f"taken by {taken} connections") if taken else Absent()
