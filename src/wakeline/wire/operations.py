"""Dead letters, workspaces, retention and health on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from wakeline.wire.common import Answer, Handle, Limit, Query, Request


class DeadLetterView(Answer):
    dead_letter_id: str
    sender: str
    code: str
    reason: str
    payload: str
    created_at: datetime
    attempts: int
    redriven_at: datetime | None
    message_id: str | None


class DeadLettersQuery(Query):
    sender: Handle | None = None
    open: bool = True
    limit: Limit = 50


class DeadLetters(Answer):
    dead_letters: list[DeadLetterView]


class AddWorkspace(Request):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]


class WorkspaceView(Answer):
    name: str
    epoch: str
    last_log_id: int
    first_log_id: int
    created_at: datetime


class Workspaces(Answer):
    workspaces: list[WorkspaceView]


class Prune(Request):
    older_than_seconds: Annotated[int, Meta(ge=0, le=3_153_600_000)] | None = None
    keep: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class Pruned(Answer):
    log_rows: int
    messages: int
    first_log_id: int
    last_log_id: int


class WhoAmI(Answer):
    handle: str
    workspace: str
    kind: str
    role: str
    operator: bool
    expires_at: datetime | None


class StatusAnswer(Answer):
    version: str
    workspace: str
    epoch: str
    database: str
    position: str
    first_log_id: int
    agents: int
    threads: int
    messages: int
    open_dead_letters: int
    unread: int
    streams: int
    search_lag: int


class Check(Answer):
    name: str
    ok: bool
    detail: str


class Ready(Answer):
    ready: bool
    checks: list[Check]


class Health(Answer):
    status: Literal["ok"]
    version: str
