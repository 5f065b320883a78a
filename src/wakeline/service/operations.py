"""What an operator asks of a server: who am I, how is it, which workspaces are there, prune."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from wakeline import wire
from wakeline.core import policy
from wakeline.core.instant import SECOND, to_datetime
from wakeline.core.log import Position, Workspace
from wakeline.core.principal import Caller
from wakeline.core.queries import AllWorkspaces, ConsumerCursor, StatusFigures, UnreadCount, WorkspaceById
from wakeline.errors import WakelineError
from wakeline.service.context import Context, check_claims
from wakeline.service.hub import Hub


class Operations:
    def __init__(
        self,
        context: Context,
        hub: Hub,
        *,
        version: str,
        database: str,
        human: str,
        retention: Callable[[int], Awaitable[tuple[int, int, int]]],
        issuer: Callable[[], str] | None = None,
    ) -> None:
        self._context = context
        self._hub = hub
        self._version = version
        self._database = database
        self._human = human
        self._retention = retention
        self._issuer = issuer

    def who_am_i(self, caller: Caller) -> wire.WhoAmI:
        return wire.WhoAmI(
            handle=caller.handle,
            workspace=caller.workspace,
            kind=caller.kind,
            role=caller.role,
            operator=caller.operator,
            expires_at=None if caller.expires_at is None else to_datetime(caller.expires_at),
        )

    async def status(self, caller: Caller) -> wire.StatusAnswer:
        store = self._context.store
        now = await store.now()
        workspaces, figures, cursors, unread = await store.read_together(
            WorkspaceById(caller.workspace_id),
            StatusFigures(caller.workspace_id),
            ConsumerCursor(caller.workspace_id, "search"),
            UnreadCount(caller.workspace_id, caller.handle, now),
        )
        workspace = workspaces[0]
        return wire.StatusAnswer(
            version=self._version,
            workspace=workspace.name,
            epoch=workspace.epoch,
            database=self._database,
            position=str(Position(workspace.epoch, workspace.last_log_id)),
            first_log_id=workspace.first_log_id,
            agents=figures[0].agents,
            threads=figures[0].threads,
            messages=figures[0].messages,
            open_dead_letters=figures[0].open_dead_letters,
            unread=unread[0],
            streams=len(self._hub.streams),
            search_lag=workspace.last_log_id - (cursors[0] if cursors else 0),
        )

    def health(self) -> wire.Health:
        return wire.Health(status="ok", version=self._version)

    async def ready(self) -> wire.Ready:
        try:
            checks = [wire.Check(name=name, ok=ok, detail=text) for name, ok, text in await self._context.store.check()]
        except WakelineError as error:
            checks = [wire.Check(name="store", ok=False, detail=f"{error.code}: {error.message}")]
        if self._issuer is not None:
            # Told, but no reason to take a node away: all of them would go, and local tokens are as good as ever.
            checks.append(wire.Check(name="issuer", ok=True, detail=self._issuer()))
        return wire.Ready(ready=all(check.ok for check in checks), checks=checks)

    async def workspaces(self, caller: Caller) -> wire.Workspaces:
        rows = await self._context.store.read(AllWorkspaces())
        seen = rows if caller.operator else [row for row in rows if row.workspace_id == caller.workspace_id]
        return wire.Workspaces(workspaces=[_workspace(row) for row in seen])

    async def add_workspace(self, caller: Caller, request: wire.AddWorkspace) -> wire.WorkspaceView:
        check_claims(caller, request)
        policy.require_operator(caller, "add workspaces")
        row = await self._context.store.add_workspace(request.name, secrets.token_hex(4), self._human)
        await self._hub.start()
        return _workspace(row)

    async def prune(self, caller: Caller, request: wire.Prune) -> wire.Pruned:
        """Without limits of its own it does what the schedule does."""
        check_claims(caller, request)
        policy.require_human(caller, "prune the log")
        store = self._context.store
        await store.index()
        if request.older_than_seconds is None and request.keep is None:
            log_rows, messages, sessions = await self._retention(caller.workspace_id)
        else:
            log_rows, sessions = await self._prune(caller.workspace_id, request.older_than_seconds, request.keep)
            messages = 0
        [workspace] = await store.read(WorkspaceById(caller.workspace_id))
        return wire.Pruned(
            log_rows=log_rows,
            messages=messages,
            sessions=sessions,
            first_log_id=workspace.first_log_id,
            last_log_id=workspace.last_log_id,
        )

    async def _prune(self, workspace_id: int, age: int | None, keep: int | None) -> tuple[int, int]:
        store = self._context.store
        before = None if age is None else await store.now() - age * SECOND
        rows = await store.prune(workspace_id, before=before, keep=keep)
        return rows, 0 if before is None else await store.forget_sessions(workspace_id, ended_before=before)


def _workspace(row: Workspace) -> wire.WorkspaceView:
    return wire.WorkspaceView(
        name=row.name,
        epoch=row.epoch,
        last_log_id=row.last_log_id,
        first_log_id=row.first_log_id,
        created_at=to_datetime(row.created_at),
    )
