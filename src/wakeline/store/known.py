"""What a writer knows of one workspace without asking: facts that earlier batches read or wrote.

What was read stays true until we change it ourselves, or until somebody else writes; that is for the engine to notice,
and then all of this is forgotten (`sqlite/facts.py`, `postgres/memory.py`).  Kept is what nearly every post asks for:
principals, who holds a role, threads with all of their members, and a sender's bucket, grants, blocks and causes.  And
what planning a wake asks for while nothing of its subscription is open: the subscription, its cursor and its owner's
budget; and whose subscriptions wait for messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any

import msgspec

from wakeline.core.allowance import bucket_name
from wakeline.core.cursor import Cursor
from wakeline.core.delivery import Delivery
from wakeline.core.log import Workspace
from wakeline.core.picture import Changes, Facts, Needs, Picture
from wakeline.core.principal import Principal
from wakeline.core.records import Block, Bucket, Cause, Grant
from wakeline.core.subscription import Subscription
from wakeline.core.thread import Member, Thread
from wakeline.core.wake import PLANNED, Wake

_replace = msgspec.structs.replace
_KEPT = ("handles", "roles", "guests", "threads", "audience_keys", "senders", "plans", "cursors")
_others = attrgetter(*(name for name in Needs.__struct_fields__ if name not in _KEPT))


class _Sender:
    __slots__ = ("blocks", "bucket", "causes", "grants")

    def __init__(self) -> None:
        self.bucket: Bucket | None = None
        self.grants: dict[tuple[str, str], Grant] = {}  # by (scope, owner)
        self.blocks: dict[str, Block] = {}  # by blocker
        self.causes: dict[str, Cause] = {}  # by session


class _Plan:
    __slots__ = ("open", "subscription")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.open: set[int | str] = set()  # wakes that wait or are held, by log_id, and deliveries under way

    @property
    def is_ringing(self) -> bool:
        return any(isinstance(one, str) for one in self.open)


class Known:
    """Of a key that is in one of these, everything is known; None says that there is no such row."""

    __slots__ = (
        "_budgets",
        "_cursors",
        "_holders",
        "_members",
        "_plans",
        "_principals",
        "_senders",
        "_thread_ids",
        "_threads",
        "_watching",
        "_workspace",
        "learned",
    )

    def __init__(self, workspace: Workspace) -> None:
        self.learned = 0  # rows so far: never less than what is kept
        self._workspace = workspace
        self._principals: dict[str, Principal | None] = {}
        self._holders: dict[str, list[str]] = {}  # by role
        self._threads: dict[str, Thread | None] = {}
        self._thread_ids: dict[str, str | None] = {}  # by audience key
        self._members: dict[str, dict[str, Member]] = {}
        self._senders: dict[str, _Sender] = {}
        self._plans: dict[str, _Plan] = {}  # by subscription
        self._budgets: dict[str, Bucket | None] = {}  # of the owners of those
        self._cursors: dict[tuple[str, str, str], Cursor | None] = {}
        self._watching: dict[str, list[str]] = {}  # by owner: subscriptions to messages

    # -- questions ----------------------------------------------------------------------------------------------------

    def lacks(self, needs: Needs) -> Needs | None:
        """What of this must still be read; None if nothing is, as for most posts."""
        if not any(_others(needs)) and (
            needs.handles <= self._principals.keys()
            and needs.roles <= self._holders.keys()
            and needs.threads <= self._threads.keys()
            and needs.audience_keys <= self._thread_ids.keys()
            and needs.senders <= self._senders.keys()
            and needs.cursors <= self._cursors.keys()
            and all(self._is_member(thread_id, handle) for thread_id, handle in needs.guests)
            and all(map(self._is_quiet, needs.plans))
        ):
            return None
        return _replace(
            needs,
            handles=needs.handles - self._principals.keys(),
            roles=needs.roles - self._holders.keys(),
            guests={
                (thread_id, handle) for thread_id, handle in needs.guests if not self._is_member(thread_id, handle)
            },
            threads=needs.threads - self._threads.keys(),
            audience_keys=needs.audience_keys - self._thread_ids.keys(),
            senders=needs.senders - self._senders.keys(),
            plans={subscription_id for subscription_id in needs.plans if not self._is_quiet(subscription_id)},
            cursors=needs.cursors - self._cursors.keys(),
        )

    def _is_quiet(self, subscription_id: str) -> bool:
        """Nothing of it waits or is under way, so that planning asks for no wakes, deliveries or threads."""
        plan = self._plans.get(subscription_id)
        return plan is not None and not plan.open

    def watching(self, handle: str, read: Callable[[], list[str]]) -> list[tuple[Subscription, bool]] | None:
        """Who waits for mail to this handle, and whether something of it is under way; None: we do not know of all."""
        if handle not in self._watching:
            self._watching[handle] = read()
            self.learned += 1 + len(self._watching[handle])
        plans = [self._plans.get(subscription_id) for subscription_id in self._watching[handle]]
        known = [(plan.subscription, plan.is_ringing) for plan in plans if plan is not None]
        return known if len(known) == len(plans) else None

    def _is_member(self, thread_id: str, handle: str) -> bool:
        """Of somebody who is in a thread nobody asks whether they had a glimpse of it."""
        member = self._members.get(thread_id, {}).get(handle)
        return member is not None and member.left_at is None

    def is_of(self, workspace: Workspace) -> bool:
        """Was nothing written to it since what we know?"""
        return workspace == self._workspace

    def facts(self, needs: Needs, now: int, read: Facts | None = None) -> Facts:
        """What was asked for, together with what was read only now."""
        facts = read or Facts(now, self._workspace)
        if needs.roles:
            facts.role_holders = [(role, handle) for role in needs.roles for handle in self._holders[role]]
        if needs.handles or needs.roles:
            handles = {*needs.handles, *(handle for _, handle in facts.role_holders)}
            principals = [row for handle in handles if (row := self._principals[handle]) is not None]
            facts.principals = [*principals, *facts.principals]
        if needs.threads or needs.audience_keys:
            threads = list(self._asked_threads(needs))
            facts.threads = [*threads, *facts.threads]
            facts.members = [*self._members_of(threads), *facts.members]
        if needs.senders:
            self._add_rights(facts, needs)
        if needs.cursors:
            cursors = [self._cursors[key] for key in needs.cursors]
            facts.cursors = [row for row in cursors if row is not None]
        if needs.plans:
            self._add_plans(facts, needs)
        return facts

    def _add_rights(self, facts: Facts, needs: Needs) -> None:
        senders = [self._senders[handle] for handle in needs.senders]
        facts.grants = [row for sender in senders for row in sender.grants.values()]
        facts.blocks = [row for sender in senders for row in sender.blocks.values()]
        facts.causes = [row for sender in senders for row in sender.causes.values()]
        # Others than senders have buckets too, and those are read each time.
        facts.buckets = [*(sender.bucket for sender in senders if sender.bucket is not None), *facts.buckets]

    def _add_plans(self, facts: Facts, needs: Needs) -> None:
        quiet = [self._plans[one].subscription for one in needs.plans if self._is_quiet(one)]
        owners = [self._principals[row.handle] for row in quiet]
        budgets = [self._budgets[bucket_name(row.handle)] for row in quiet]
        facts.subscriptions = [*quiet, *facts.subscriptions]
        facts.principals = [*(row for row in owners if row is not None), *facts.principals]
        facts.buckets = [*(row for row in budgets if row is not None), *facts.buckets]

    def _asked_threads(self, needs: Needs) -> Iterator[Thread]:
        for thread_id in (*needs.threads, *(self._thread_ids[key] for key in needs.audience_keys)):
            thread = None if thread_id is None else self._threads[thread_id]
            if thread is not None:
                yield thread

    def _members_of(self, threads: Iterable[Thread]) -> Iterator[Member]:
        for thread in threads:
            yield from self._members[thread.thread_id].values()

    # -- learning -----------------------------------------------------------------------------------------------------

    def read(self, lacked: Needs, facts: Facts) -> None:
        """These keys were looked for, and this was found."""
        self._principals.update(dict.fromkeys(lacked.handles))
        self._threads.update(dict.fromkeys(lacked.threads))
        self._thread_ids.update(dict.fromkeys(lacked.audience_keys))
        self._senders.update((handle, _Sender()) for handle in lacked.senders)
        self._holders.update((role, []) for role in lacked.roles)
        self._cursors.update(dict.fromkeys(lacked.cursors))
        for role, handle in facts.role_holders:
            self._holders[role].append(handle)
        self._principals.update((row.handle, row) for row in facts.principals)
        for thread in facts.threads:
            self._keep_thread(thread)
        self._keep_members(facts.members)
        self._keep_rights(facts.grants, facts.blocks, facts.buckets)
        self._keep_causes(facts.causes)
        self._cursors.update(((row.consumer_id, row.stream_name, row.subject_id), row) for row in facts.cursors)
        if lacked.plans:
            self._read_plans(lacked.plans, facts)
        self.learned += sum(map(len, (lacked.handles, lacked.threads, lacked.audience_keys, lacked.senders)))
        self.learned += _count(facts)

    def _read_plans(self, subscription_ids: set[str], facts: Facts) -> None:
        for subscription in facts.subscriptions:
            if subscription.subscription_id in subscription_ids:
                self._plans[subscription.subscription_id] = _Plan(subscription)
                self._principals.setdefault(subscription.handle, None)
                self._budgets.setdefault(bucket_name(subscription.handle), None)
        self._budgets.update((row.sender, row) for row in facts.buckets if row.sender in self._budgets)
        self._keep_open(facts.wakes, facts.deliveries)

    def distrust(self, changes: Changes) -> None:
        """This was written and is not learned yet, so what it touches must be read."""
        subscriptions = changes.subscriptions or changes.subscription_tails
        if subscriptions or changes.wakes or changes.deliveries or changes.principals:
            self._plans.clear()

    def wrote(self, picture: Picture) -> None:
        """This batch was committed."""
        changes = picture.changes
        if not changes:
            return
        self._workspace = after(picture)
        self._principals.update(changes.principals)
        if changes.principals:
            self._holders.clear()  # rare, and read again in no time
        for thread in (*changes.threads.values(), *changes.thread_tails.values()):
            self._keep_thread(thread)
        self._keep_members(changes.members.values())
        self._keep_rights(changes.grants.values(), changes.blocks.values(), changes.buckets.values())
        self._keep_causes(changes.causes.values())
        self._keep_plans(changes)
        if changes.subscriptions or changes.subscription_keys:
            self._watching.clear()
        self.learned += _count(changes)

    def _keep_thread(self, thread: Thread) -> None:
        thread_id = thread.thread_id
        before = self._threads.get(thread_id)
        if before is not None and before.audience_key is not None and before.audience_key != thread.audience_key:
            self._thread_ids[before.audience_key] = None  # a closed thread gives up its address
        if thread.audience_key is not None:
            self._thread_ids[thread.audience_key] = thread_id
        self._threads[thread_id] = thread
        self._members.setdefault(thread_id, {})

    def _keep_members(self, members: Iterable[Member]) -> None:
        """In the order in which the database lists them, so that a message names its recipients in the same order."""
        joined = set()
        for member in members:
            mine = self._members[member.thread_id]
            if member.handle not in mine:
                joined.add(member.thread_id)
            mine[member.handle] = member
        for thread_id in joined:
            self._members[thread_id] = dict(sorted(self._members[thread_id].items()))

    def _keep_rights(self, grants: Iterable[Grant], blocks: Iterable[Block], buckets: Iterable[Bucket]) -> None:
        """Of senders that were asked for; of others they will be read when they are."""
        for grant in grants:
            if grant.grantee in self._senders:
                self._senders[grant.grantee].grants[grant.scope, grant.owner] = grant
        for block in blocks:
            if block.blocked in self._senders:
                self._senders[block.blocked].blocks[block.blocker] = block
        for bucket in buckets:
            if bucket.sender in self._senders:
                self._senders[bucket.sender].bucket = bucket

    def _keep_plans(self, changes: Changes) -> None:
        """Of what was asked for; the rest will be read when it is."""
        self._cursors.update((key, row) for key, row in changes.cursors.items() if key in self._cursors)
        self._budgets.update((name, row) for name, row in changes.buckets.items() if name in self._budgets)
        for row in (*changes.subscriptions.values(), *changes.subscription_tails.values()):
            if row.subscription_id in self._plans:
                self._plans[row.subscription_id].subscription = row
        self._keep_open(changes.wakes.values(), changes.deliveries.values())

    def _keep_open(self, wakes: Iterable[Wake], deliveries: Iterable[Delivery]) -> None:
        for wake in wakes:
            self._mark(wake.subscription_id, wake.log_id, is_open=wake.state in PLANNED)
        for delivery in deliveries:
            self._mark(delivery.subscription_id, delivery.delivery_id, is_open=delivery.outcome is None)

    def _mark(self, subscription_id: str, what: int | str, *, is_open: bool) -> None:
        plan = self._plans.get(subscription_id)
        if plan is not None:
            (plan.open.add if is_open else plan.open.discard)(what)

    def _keep_causes(self, causes: Iterable[Cause]) -> None:
        for cause in causes:
            if cause.handle in self._senders:
                self._senders[cause.handle].causes[cause.session_id] = cause


def after(picture: Picture) -> Workspace:
    """The workspace, once this batch is written."""
    workspace = picture.workspace
    return _replace(workspace, last_log_id=picture.last_log_id, version=workspace.version + 1)


def _count(rows: Facts | Changes) -> int:
    kept: tuple[Any, ...] = (
        rows.principals, rows.threads, rows.members, rows.grants, rows.blocks, rows.buckets, rows.causes, rows.cursors,
        rows.subscriptions, rows.wakes, rows.deliveries,
    )  # fmt: skip
    return sum(map(len, kept))
