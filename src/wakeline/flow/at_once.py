"""Stages 2 and 3 in the transaction of the post itself, where one process writes: no second commit before a wake.

The matcher (`runtime/matcher.py`) follows the log in any case and finds whatever was not matched here; what was has its
wake already and is not found again.  The events of one subscription must stay in order, so nothing is matched at once
while an earlier message still waits for the matcher.  Subscriptions that are told over a connection are left to the
matcher too: only the server knows who is connected.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from wakeline.core.queries import ConsumerCursor
from wakeline.core.store import Read
from wakeline.core.subscription import Target
from wakeline.core.wake_queries import AnySubscription, MatchedMessage, WakeMessages
from wakeline.core.waking import WakeRules
from wakeline.flow.find import cannot_ring, find_messages
from wakeline.flow.match import CONSUMER, Match
from wakeline.flow.plan import Stamp

BEHIND = 1_000  # rows that are searched for what the matcher has still to do


class AtOnce(msgspec.Struct, frozen=True):
    rules: WakeRules
    node: str
    claims: frozenset[str]

    def is_wanted(self, read: Read, workspace_id: int) -> bool:
        return bool(read(AnySubscription(workspace_id)))

    def may_follow(self, read: Read, workspace_id: int, last_log_id: int) -> bool:
        """Is everything up to this row matched?"""
        reached = next(iter(read(ConsumerCursor(workspace_id, CONSUMER))), 0)
        if last_log_id - reached > BEHIND:
            return False
        return not _ours(read(WakeMessages(workspace_id, reached, last_log_id)))

    def command(self, read: Read, workspace_id: int, after: int, until: int, now: int) -> Match | None:
        rows = _ours(read(WakeMessages(workspace_id, after, until)))
        found = find_messages(rows)
        if not found:
            return None
        quiet = frozenset(row.subscription_id for row in rows if cannot_ring(row, self.rules, now))
        # Matched once and never again, so what is made of it can have its name.
        stamp = Stamp(found[0].message_id or "", self.node, self.claims)
        # A bridge's ring that is still under way makes its subscription quiet, whatever its target is now.
        seatless = frozenset(row.subscription_id for row in rows if row.target != Target.BRIDGE)
        return Match(workspace_id, None, tuple(found), (), quiet, self.rules, stamp, seatless)


def _ours(rows: Iterable[MatchedMessage]) -> list[MatchedMessage]:
    return [row for row in rows if row.target != Target.MCP]
