"""What the store tests say in one word: callers, posts, and the few reads that every test asks."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec

from wakeline.core.bridge import BRIDGE_ROLE
from wakeline.core.guardrail import Guardrails
from wakeline.core.ids import ulid
from wakeline.core.log import Workspace
from wakeline.core.message import SCHEMA_VERSION, Message, parse_audience
from wakeline.core.principal import COORDINATOR, HUMAN_ROLE, PARTICIPANT, SYSTEM, Caller, Kind
from wakeline.core.queries import Delivered, Entry, InboxPage, LogAfter, UnreadCount
from wakeline.core.store import Store
from wakeline.flow.enrol import AddPrincipal
from wakeline.flow.once import payload_hash
from wakeline.flow.post import Accepted, Post

HUMAN = "@human"
HOUR = 3_600_000_000
# What a test says is its data, and says nothing about agents that go round in circles.
UNGUARDED = Guardrails(loop_turn_limit=0, loop_repeat_limit=0, loop_chain_limit=0)
_numbers = count(1)


def new_id() -> str:
    """Ids that sort in the order in which they were made."""
    return ulid(next(_numbers), 0)


def agent(workspace: Workspace, handle: str, role: str = PARTICIPANT) -> Caller:
    return Caller(workspace.workspace_id, workspace.name, handle, Kind.AGENT, role)


def coordinator(workspace: Workspace, handle: str) -> Caller:
    return agent(workspace, handle, COORDINATOR)


def human(workspace: Workspace) -> Caller:
    return Caller(workspace.workspace_id, workspace.name, HUMAN, Kind.HUMAN, HUMAN_ROLE, operator=True)


def bridge(workspace: Workspace, host: str) -> Caller:
    return Caller(workspace.workspace_id, workspace.name, SYSTEM, Kind.SYSTEM, BRIDGE_ROLE, host=host)


def post(
    caller: Caller,
    to: str = "",
    body: str = "hello",
    *,
    thread_id: str | None = None,
    tags: list[str] | None = None,
    rails: Guardrails | None = None,
    **fields: Any,
) -> Post:
    """`to` is what a person would type: `@bob @carol`, `role:reviewer` or `everyone`."""
    message = Message(
        message_id=fields.pop("message_id", None) or new_id(),
        workspace_id=caller.workspace_id,
        thread_id="",
        seq=0,
        log_id=0,
        sender=caller.handle,
        session_id=None,
        kind="chat",
        subject=None,
        body=body,
        recipients="[]",
        priority="normal",
        wake_policy="immediate",
        tags=msgspec.json.encode(tags or []).decode(),
        in_reply_to=None,
        idempotency_key=None,
        expires_at=None,
        supersedes=None,
        metadata=None,
        schema_version=SCHEMA_VERSION,
        created_at=0,
    )
    return Post(
        caller=caller,
        message=msgspec.structs.replace(message, **fields),
        audience=parse_audience(to.split(), caller.handle) if to else None,
        thread_id=thread_id,
        wake_policy=None,
        tags=tags or [],
        digest=payload_hash([to, body, thread_id]),
        rails=rails or UNGUARDED,
    )


async def open_workspace(store: Store, *agents: str, name: str = "default", roles: tuple[str, ...] = ()) -> Workspace:
    """A workspace with a human and these agents, all of whom are participants and hold `roles`."""
    workspace = await store.add_workspace(name, "e1", HUMAN)
    for handle in agents:
        await store.submit(AddPrincipal(human(workspace), handle, Kind.AGENT, (PARTICIPANT, *roles), None, None))
    return workspace


async def send(store: Store, *args: Any, **fields: Any) -> Accepted:
    return await store.submit(post(*args, **fields))


async def inbox(store: Store, caller: Caller, *, limit: int = 100) -> list[Delivered]:
    """All unread mail, page by page."""
    found: list[Delivered] = []
    after = (-1, 0, 0)
    while True:
        page = await store.read(InboxPage(caller.workspace_id, caller.handle, await store.now(), 0, 0, *after, limit))
        found += page
        if len(page) < limit:
            return found
        last = page[-1].receipt
        assert last is not None
        after = (last.box, last.rank, last.log_id)


async def unread(store: Store, caller: Caller) -> int:
    [count_] = await store.read(UnreadCount(caller.workspace_id, caller.handle, await store.now()))
    return count_


async def log_of(store: Store, workspace: Workspace, after: int = 0) -> list[Entry]:
    return await store.read(LogAfter(workspace.workspace_id, after, 100_000))
