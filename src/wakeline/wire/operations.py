"""Dead letters, workspaces, retention and health on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from wakeline.wire.common import Answer, Handle, Instant, Limit, Query, Request


class DeadLetterView(Answer, frozen=True):
    dead_letter_id: str
    sender: str
    code: str
    reason: str
    payload: str
    created_at: Instant
    attempts: int
    redriven_at: Instant | None
    message_id: str | None


class DeadLettersQuery(Query, frozen=True):
    sender: Handle | None = None
    open: bool = True
    limit: Limit = 50


class DeadLetters(Answer, frozen=True):
    dead_letters: list[DeadLetterView]


class AddWorkspace(Request, frozen=True):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$(?!\n)")]


class WorkspaceView(Answer, frozen=True):
    name: str
    epoch: str
    last_log_id: int
    first_log_id: int
    created_at: Instant


class Workspaces(Answer, frozen=True):
    workspaces: list[WorkspaceView]


class Prune(Request, frozen=True):
    older_than_seconds: Annotated[int, Meta(ge=0, le=3_153_600_000)] | None = None
    keep: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class Pruned(Answer, frozen=True):
    log_rows: int
    messages: int
    sessions: int
    first_log_id: int
    last_log_id: int


class WhoAmI(Answer, frozen=True):
    handle: str
    workspace: str
    kind: str
    role: str
    operator: bool
    expires_at: Instant | None


class StatusAnswer(Answer, frozen=True):
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


class Check(Answer, frozen=True):
    name: str
    ok: bool
    detail: str


class Ready(Answer, frozen=True):
    ready: bool
    checks: list[Check]


class Health(Answer, frozen=True):
    status: Literal["ok"]
    version: str
