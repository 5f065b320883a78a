"""The smaller rows: who may do what, how often, what was refused, and what could not be brought anywhere."""

from __future__ import annotations

import msgspec


class IdempotencyRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    workspace_id: int
    sender: str
    operation: str
    key: str
    payload_hash: str
    subject: str
    answer: str  # JSON
    created_at: int


class Grant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    workspace_id: int
    scope: str
    grantee: str
    owner: str
    granted_by: str
    created_at: int
    revoked_at: int | None = None


class Block(msgspec.Struct, frozen=True, array_like=True, gc=False):
    workspace_id: int
    blocker: str
    blocked: str
    created_by: str
    created_at: int
    lifted_at: int | None = None


class Bucket(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A sender's token bucket: what is left, in millionths of a message, and when that was counted."""

    workspace_id: int
    sender: str
    level: int
    counted_at: int


class Token(msgspec.Struct, frozen=True, array_like=True, gc=False):
    jti: str
    workspace_id: int
    handle: str
    role: str
    session_id: str | None
    note: str | None
    issued_at: int
    issued_by: str
    expires_at: int
    revoked_at: int | None = None
    host: str | None = None  # the token of a bridge: for the sessions of this host, and for nothing else


class Refusal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Policy refusals of one principal by one rule in one minute; counts add up in the store."""

    workspace_id: int
    handle: str
    rule: str
    minute: int
    count: int
    last_message: str


class DeadLetter(msgspec.Struct, frozen=True, array_like=True, gc=False):
    dead_letter_id: str
    workspace_id: int
    sender: str
    code: str
    reason: str
    payload: str
    created_at: int
    attempts: int = 0
    redriven_at: int | None = None
    message_id: str | None = None


class Cause(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The message that a principal last took up: what it says next is taken to come from that one."""

    workspace_id: int
    handle: str
    session_id: str  # empty: no session is known
    message_id: str
    thread_id: str
    chain: str | None  # JSON of a Chain
    taken_at: int


class Wait(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Somebody waits for the answer to a message."""

    workspace_id: int
    message_id: str
    asker: str
    asked: str  # JSON list of handles
    until: int


class Consumer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far one of our own log readers has come."""

    workspace_id: int
    name: str
    last_log_id: int


class IssuerKey(msgspec.Struct, frozen=True, array_like=True, gc=False):
    kid: str
    public_key: str
    private_key: str  # encrypted under the data directory's key
    created_at: int
    retired_at: int | None = None
