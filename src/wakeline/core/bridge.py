"""Bridges: the processes that ring inside the sessions of one host.

A host has one bridge at a time in a workspace: it holds a lease on the host's name, which it renews while it runs.  A
second one is refused until the lease is over.
"""

from __future__ import annotations

import msgspec

BRIDGE_ROLE = "bridge"
LEASE_SECONDS = 45


class Bridge(msgspec.Struct, frozen=True, array_like=True, gc=False):
    workspace_id: int
    host: str
    bridge_id: str  # of one installation: it survives a restart, and two that run side by side differ
    version: str
    transports: str  # JSON list: what it can ring through
    started_at: int
    lease_until: int


def is_attended(bridge: Bridge | None, now: int) -> bool:
    """Is there somebody who would ring?"""
    return bridge is not None and now < bridge.lease_until
