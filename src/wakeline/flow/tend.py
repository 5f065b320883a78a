"""A bridge says that it is there: it takes or renews the lease on its host's name.

The lease keeps a second bridge for the same host out, and tells the planner that somebody would ring.  A bridge that
starts says so: what it was carrying in a former life nobody knows the end of.
"""

from __future__ import annotations

import msgspec

from wakeline.core import policy
from wakeline.core.bridge import LEASE_SECONDS, Bridge, is_attended
from wakeline.core.instant import SECOND
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.errors import Conflict
from wakeline.flow import evidence
from wakeline.flow.review import doubt


class Tend(msgspec.Struct, frozen=True):
    caller: Caller
    bridge_id: str
    version: str
    transports: tuple[str, ...]
    started: bool
    leased: tuple[tuple[str, str], ...] = ()  # (delivery, subscription) that its former life was carrying

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.bridges.add(self.caller.host or "")
        needs.deliveries.update(delivery_id for delivery_id, _ in self.leased)

    def decide(self, picture: Picture) -> bool:
        """Whether there was nobody before: then what waited for a bridge may ring."""
        host = policy.require_bridge(self.caller)
        policy.admit(picture, self.caller)
        before = picture.bridges.get(host)
        there = is_attended(before, picture.now)
        if before is not None and there and before.bridge_id != self.bridge_id:
            raise running(before)
        fresh = self.started or before is None or not there
        bridge = Bridge(
            self.workspace_id,
            host,
            self.bridge_id,
            self.version,
            msgspec.json.encode(self.transports).decode(),
            picture.now if fresh or before is None else before.started_at,
            picture.now + LEASE_SECONDS * SECOND,
        )
        picture.put_bridge(bridge)
        self._let_go(picture)
        return fresh

    def _let_go(self, picture: Picture) -> None:
        for delivery_id, subscription_id in self.leased:
            delivery = picture.deliveries.get(delivery_id)
            if delivery is not None and delivery.outcome is None and delivery.lease_owner == self.bridge_id:
                doubt(picture, delivery, "bridge_restarted", "Nobody knows whether it was rung.")
                evidence.look_again(picture, subscription_id)


class Leave(msgspec.Struct, frozen=True):
    """A bridge stops: the next one need not wait."""

    caller: Caller
    bridge_id: str

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.bridges.add(self.caller.host or "")

    def decide(self, picture: Picture) -> None:
        host = policy.require_bridge(self.caller)
        before = picture.bridges.get(host)
        if before is not None and before.bridge_id == self.bridge_id and is_attended(before, picture.now):
            picture.put_bridge(msgspec.structs.replace(before, lease_until=picture.now))


def admit_bridge(picture: Picture, caller: Caller, bridge_id: str) -> str:
    """The caller's host, if it holds the lease on it."""
    host = policy.require_bridge(caller)
    policy.admit(picture, caller)
    bridge = picture.bridges.get(host)
    if bridge is None or not is_attended(bridge, picture.now):
        raise Conflict("BRIDGE_NOT_ATTENDING", f"Nobody holds the lease on the host {host}.", host=host)
    if bridge.bridge_id != bridge_id:
        raise running(bridge)
    return host


def running(bridge: Bridge) -> Conflict:
    return Conflict("BRIDGE_RUNNING", f"Another bridge serves the host {bridge.host}.", host=bridge.host)
