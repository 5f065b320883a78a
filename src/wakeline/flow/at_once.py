"""Stages 2 and 3 in the transaction of the post itself, where one process writes: no second commit before a wake.

The matcher (`runtime/matcher.py`) follows the log in any case and finds whatever was not matched here; what was has its
wake already and is not found again.  The events of one subscription must stay in order, so nothing is matched at once
while an earlier message still waits for the matcher.  Subscriptions that are told over a connection are left to the
matcher too: only the server knows who is connected.

Whom a message concerns is told from memory before it is written (`at_hand`), or found once it is (`find`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from wakeline.core.message import Message, WakePolicy
from wakeline.core.picture import Picture
from wakeline.core.queries import ConsumerCursor
from wakeline.core.store import Read, Watchers
from wakeline.core.subscription import Subscription, Target
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

    def at_hand(self, picture: Picture, watchers: Watchers) -> list[MatchedMessage] | None:
        """As `find` would tell once it is written."""
        rows: list[MatchedMessage] = []
        receivers = _receivers(picture)
        for message in picture.changes.messages.values():
            if message.wake_policy == WakePolicy.SILENT:
                continue
            for handle in receivers.get((message.thread_id, message.seq), ()):
                watching = watchers(handle) if handle != message.sender else ()
                if watching is None:
                    return None
                rows += [
                    _row(picture, message, subscription, ringing=ringing)
                    for subscription, ringing in watching
                    if message.log_id > subscription.from_log_id
                ]
        return rows

    def find(self, read: Read, workspace_id: int, after: int, until: int) -> list[MatchedMessage]:
        return _ours(read(WakeMessages(workspace_id, after, until)))

    def command(self, workspace_id: int, found: list[MatchedMessage], now: int) -> Match | None:
        events = find_messages(found)
        if not events:
            return None
        quiet = frozenset(row.subscription_id for row in found if cannot_ring(row, self.rules, now))
        # Matched once and never again, so what is made of it can have its name.
        stamp = Stamp(events[0].message_id or "", self.node, self.claims)
        # A bridge's ring that is still under way makes its subscription quiet, whatever its target is now.
        seatless = frozenset(row.subscription_id for row in found if row.target != Target.BRIDGE)
        return Match(workspace_id, None, tuple(events), (), quiet, self.rules, stamp, seatless)


def _ours(rows: Iterable[MatchedMessage]) -> list[MatchedMessage]:
    return [row for row in rows if row.target != Target.MCP]


def _receivers(picture: Picture) -> dict[tuple[str, int], list[str]]:
    found: dict[tuple[str, int], list[str]] = {}
    for thread_id, seq, handle in picture.changes.receipts:
        found.setdefault((thread_id, seq), []).append(handle)
    return found


def _row(picture: Picture, message: Message, subscription: Subscription, *, ringing: bool) -> MatchedMessage:
    member = picture.members.get(message.thread_id, {}).get(subscription.handle)
    return MatchedMessage(
        log_id=message.log_id,
        handle=subscription.handle,
        subscription_id=subscription.subscription_id,
        filters=subscription.filters,
        rung_at=subscription.rung_at,
        coalesce_window=subscription.coalesce_window,
        target=subscription.target,
        ringing=int(ringing),
        message_id=message.message_id,
        thread_id=message.thread_id,
        seq=message.seq,
        sender=message.sender,
        subject=message.subject,
        priority=message.priority,
        tags=message.tags,
        in_reply_to=message.in_reply_to,
        wake_policy=message.wake_policy,
        recipients=message.recipients,
        created_at=message.created_at,
        session_id=None if member is None else member.session_id,
    )
