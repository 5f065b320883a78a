"""The writes that are no principal's decision: first start, expiry, retention.  Written once, over either engine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from wakeline.core.log import Workspace
from wakeline.core.principal import HUMAN_ROLE, SYSTEM
from wakeline.core.records import IssuerKey
from wakeline.errors import Conflict

PRUNED_AT_ONCE = 5_000

Step = tuple[str, Mapping[str, Any]]


class Engine(Protocol):
    async def now(self) -> int: ...

    async def fetch(self, statement: str, parameters: Mapping[str, Any]) -> list[Any]: ...

    async def transact(self, steps: Sequence[Step]) -> list[int]:
        """Run these statements in one transaction, in order; answers the rows each one changed."""
        ...


class Chores:
    """Mixed into both stores."""

    async def add_workspace(self: Engine, name: str, epoch: str, human: str) -> Workspace:
        now = await self.now()
        new = {"name": name, "epoch": epoch}  # the epoch tells ours from one that was there before
        added, *_ = await self.transact(
            [
                ("add_workspace", {**new, "now": now}),
                ("add_first_principal", {**new, **_principal(SYSTEM, "system", "", now)}),
                ("add_first_principal", {**new, **_principal(human, "human", HUMAN_ROLE, now)}),
                ("add_first_role", {**new, "handle": human, "role": HUMAN_ROLE}),
            ]
        )
        if not added:
            raise Conflict("WORKSPACE_EXISTS", f"The workspace {name} exists already.")
        rows = await self.fetch("all_workspaces", {})
        return next(workspace for workspace in (Workspace(*row) for row in rows) if workspace.name == name)

    async def add_first_issuer_key(self: Engine, key: IssuerKey) -> None:
        """Unless there is one.  Of nodes that start together, one is first: the transaction holds every workspace."""
        fields = msgspec.structs.asdict(key)
        del fields["retired_at"]
        await self.transact([("add_first_issuer_key", fields)])

    async def lapse_expired(self: Engine) -> int:
        now = {"now": await self.now()}
        if not await self.fetch("any_expired", now):
            return 0
        _, lapsed = await self.transact([("touch_workspaces", {}), ("lapse_expired", now)])
        return lapsed

    async def prune(self: Engine, workspace_id: int, *, before: int | None, keep: int | None) -> int:
        """Drop log rows older than `before` and beyond the newest `keep`, never past an internal consumer's cursor."""
        where = {"workspace_id": workspace_id}
        [(young, first, tip, slowest)] = await self.fetch("prune_bounds", {**where, "before": before or 0})
        by_age = 0 if before is None else (tip if young is None else young - 1)
        by_count = 0 if keep is None else tip - keep
        floor = max(by_age, by_count)
        if slowest is not None:
            floor = min(floor, slowest)
        deleted = 0
        for step in (*range(first + PRUNED_AT_ONCE, floor, PRUNED_AT_ONCE), floor) if floor >= first else ():
            # A slice at a time, so that no post waits for a long first pruning.
            count, _ = await self.transact(
                [("prune_log", {**where, "floor": step}), ("raise_first_log_id", {**where, "floor": step})]
            )
            deleted += count
        return deleted

    async def forget_closed(self: Engine, workspace_id: int, *, closed_before: int) -> int:
        """Delete the messages of threads closed before then, with their receipts and idempotency records.

        Not where mail is unread.  A closed thread gets no more mail, so what was read when we looked is read when we
        delete.
        """
        forgotten = 0
        while True:
            asked = {"workspace_id": workspace_id, "closed_before": closed_before, "now": await self.now()}
            threads = await self.fetch("closed_thread_ids", asked)
            forgotten_now = 0
            for (thread_id,) in threads:
                counts = await self.transact(
                    [
                        ("touch_workspaces", {}),
                        ("forget_idempotency", {"workspace_id": workspace_id, "thread_id": thread_id}),
                        ("forget_receipts", {"thread_id": thread_id}),
                        ("forget_glimpses", {"thread_id": thread_id}),
                        ("forget_messages", {"thread_id": thread_id}),
                    ]
                )
                forgotten_now += counts[-1]
            forgotten += forgotten_now
            if not forgotten_now:
                return forgotten
            await asyncio.sleep(0)

    async def forget_sessions(self: Engine, workspace_id: int, *, ended_before: int) -> int:
        """Drop sessions that ended before then, unless something that is under way refers to them."""
        asked = {"workspace_id": workspace_id, "before": ended_before}
        if not await self.fetch("any_old_session", asked):
            return 0
        return (await self.transact([("touch_workspaces", {}), ("forget_sessions", asked)]))[-1]

    async def trim_dead_letters(self: Engine, workspace_id: int, sender: str, keep: int) -> None:
        await self.transact([("trim_dead_letters", {"workspace_id": workspace_id, "sender": sender, "keep": keep})])

    async def forget_old_waits(self: Engine, before: int) -> None:
        if await self.fetch("any_old_wait", {"before": before}):
            await self.transact([("forget_old_waits", {"before": before})])

    async def forget_old_refusals(self: Engine, before: int) -> None:
        await self.transact([("forget_old_refusals", {"before": before})])

    async def forget_wakes(self: Engine, before: int) -> int:
        """Drop what was settled before then: deliveries, their evidence, and wakes that wait for nothing any more."""
        asked = {"before": before}
        steps: list[Step] = [
            ("touch_workspaces", {}),
            ("forget_activations", asked),
            ("forget_delivery_steps", asked),
            ("forget_old_wakes", asked),
            ("forget_deliveries", asked),
        ]
        return (await self.transact(steps))[-1]


def _principal(handle: str, kind: str, roles: str, now: int) -> dict[str, Any]:
    return {"handle": handle, "kind": kind, "roles": roles, "now": now}
