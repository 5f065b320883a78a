"""Follows the log for subscriptions: reads a stretch, finds what it means to them, hands it to the writer.

Where nobody subscribes nothing is read until the log tells of the first subscription.  The cursor is stored with the
wakes that it led to; a stretch without any moves it in memory, and `save` stores that now and then, so that pruning can
go on.  What was matched in the transaction of its post (`flow/at_once.py`) is not found again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from wakeline.core.bridge_queries import AnsweredRings, ReadRings
from wakeline.core.log import LogEntry
from wakeline.core.queries import ConsumerCursor, WorkspaceById
from wakeline.core.row_data import Misfit
from wakeline.core.store import Store
from wakeline.core.wake_queries import (
    AnySubscription,
    MatchedMessage,
    OpenSubscriptions,
    SubscriptionsFor,
    Unblocked,
    WakeMessages,
    WakeRows,
)
from wakeline.core.waking import WakeRules
from wakeline.flow.find import ENDS_HOLDS, Occurrence, cannot_ring, find_messages, find_occurrence, occurrence
from wakeline.flow.match import CONSUMER, Found, Match
from wakeline.flow.observe import Replied
from wakeline.flow.plan import Planned, Stamp

_log = logging.getLogger(__name__)

STRETCH = 100  # rows at a time; so short a stretch is read on the event loop

MakeStamp = Callable[[int, set[str]], Stamp]  # for these receivers of this workspace
Carry = Callable[[list[Planned]], None]  # what is to be brought out at once


class Matcher:
    def __init__(self, store: Store, rules: WakeRules, stamp: MakeStamp, carry: Carry) -> None:
        self._store = store
        self._rules = rules
        self._stamp = stamp
        self._carry = carry
        self._reached: dict[int, int] = {}
        self._stored: dict[int, int] = {}
        self._idle: set[int] = set()  # workspaces in which nobody subscribes

    async def follow(self, workspace_id: int) -> int:
        """Up to where the log ends when it is read: what comes later rings again.  Answers how many rows."""
        if workspace_id in self._idle:
            return 0
        began = reached = await self._start(workspace_id)
        while True:
            stretch = (workspace_id, reached, reached + STRETCH)
            [[workspace], wanted, messages, rows, unblocked, read, answered] = await self._store.read_together(
                WorkspaceById(workspace_id),
                AnySubscription(workspace_id),
                WakeMessages(*stretch),
                WakeRows(*stretch),
                Unblocked(*stretch),
                ReadRings(*stretch),
                AnsweredRings(*stretch),
            )
            end = workspace.last_log_id
            if not wanted:
                self._idle.add(workspace_id)
                reached = max(reached, end)
            self._reached[workspace_id] = reached
            if reached >= end:
                return reached - began
            until: int = min(end, reached + STRETCH)
            await self._match(workspace_id, until, messages, rows, {*unblocked, *read})
            if answered:
                found = tuple((row.delivery_id, row.message_id) for row in answered)
                await self._store.submit(Replied(workspace_id, found))
            self._reached[workspace_id] = reached = until
            if until == end:
                return until - began

    def is_idle(self, workspace_id: int) -> bool:
        return workspace_id in self._idle

    def expect(self, row: LogEntry) -> None:
        """The log tells of a new subscription.  What came before it concerns nobody where nobody subscribed."""
        if row.workspace_id in self._idle:
            self._idle.discard(row.workspace_id)
            self._reached[row.workspace_id] = max(self._reached[row.workspace_id], row.log_id - 1)

    async def save(self) -> None:
        """Also where nobody subscribes: pruning waits for us, and a lost word of a new subscription is made good."""
        idle, self._idle = self._idle, set()
        for workspace_id in idle:
            await self.follow(workspace_id)
        for workspace_id, reached in list(self._reached.items()):
            if reached > self._stored.get(workspace_id, 0):
                await self._submit(workspace_id, reached, [], [], [])

    async def _start(self, workspace_id: int) -> int:
        if workspace_id not in self._reached:
            rows = await self._store.read(ConsumerCursor(workspace_id, CONSUMER))
            self._reached[workspace_id] = self._stored[workspace_id] = rows[0] if rows else 0
        return self._reached[workspace_id]

    async def _match(
        self, workspace_id: int, until: int, messages: list[MatchedMessage], rows: list[LogEntry], again: set[str]
    ) -> None:
        found = find_messages(messages)
        for row in rows:
            found += await self._find(workspace_id, row)
            if row.kind in ENDS_HOLDS:
                again.update(await self._store.read(OpenSubscriptions(workspace_id, row.stream.partition(":")[2])))
        if found or again:
            await self._submit(workspace_id, until, found, sorted(again), messages)

    async def _find(self, workspace_id: int, row: LogEntry) -> list[Found]:
        what = occurrence(row)
        if isinstance(what, Misfit):
            _log.warning("row %d (%s) of the log wakes nobody: %s", what.log_id, what.kind, what.why)
        if not isinstance(what, Occurrence):
            return []
        found = []
        for handle in what.receivers:
            subscriptions = await self._store.read(SubscriptionsFor(workspace_id, handle, what.trigger))
            found += find_occurrence(what, handle, subscriptions)
        return found

    async def _submit(
        self, workspace_id: int, until: int, found: list[Found], again: list[str], messages: list[MatchedMessage]
    ) -> None:
        now = await self._store.now()
        quiet = frozenset(row.subscription_id for row in messages if cannot_ring(row, self._rules, now))
        stamp = self._stamp(workspace_id, {one.handle for one in found})
        command = Match(workspace_id, until, tuple(found), tuple(again), quiet - set(again), self._rules, stamp)
        self._carry(await self._store.submit(command))
        self._stored[workspace_id] = until
