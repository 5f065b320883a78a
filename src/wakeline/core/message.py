"""Messages: one entry of a thread each, and the words that address and rank them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from enum import IntEnum, StrEnum
from functools import lru_cache

import msgspec

from wakeline.core.principal import RESERVED, parse_handle, parse_role
from wakeline.errors import InvalidArgument
from wakeline.wire.common import SESSION_ID_PATTERN

EVERYONE = "everyone"
ROLE_PREFIX = "role:"
CROWD_PREFIX = "crowd:"
SCHEMA_VERSION = 1
MAX_KEY = 1_000  # PostgreSQL cannot index more than 2,700 bytes
_ME = re.compile(r"@me(/|$)")
_session_id = re.compile(SESSION_ID_PATTERN)


class MessageKind(StrEnum):
    CHAT = "chat"
    EVENT = "event"
    SYSTEM = "system"


class Priority(StrEnum):
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


RANK: dict[str, int] = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}


class WakePolicy(StrEnum):
    SILENT = "silent"
    NEXT_TURN = "next_turn"
    IMMEDIATE = "immediate"


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    message_id: str
    workspace_id: int
    thread_id: str
    seq: int
    log_id: int
    sender: str
    session_id: str | None
    kind: str
    subject: str | None
    body: str
    recipients: str  # JSON: the addresses as they were resolved
    priority: str
    wake_policy: str
    tags: str  # JSON
    in_reply_to: str | None
    idempotency_key: str | None
    expires_at: int | None
    supersedes: str | None
    metadata: str | None  # JSON
    schema_version: int
    created_at: int
    superseded_by: str | None = None
    retracted_at: int | None = None
    chain: str | None = None  # JSON of a Chain: what it came from
    answer_by: int | None = None
    awaited: int = 0  # 1 until somebody answers, or the human was told that nobody did


class Box(IntEnum):
    UNREAD = 0
    READ = 1
    ARCHIVED = 2
    LAPSED = 3


class Receipt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one recipient did with one message.

    `box` is where it lies: that one number orders the inbox index.  `lapsed` says why a message stopped counting as
    unread without being read.  Thread and seq are the message's, and stored with that alone.
    """

    recipient: str
    workspace_id: int
    log_id: int
    thread_id: str
    seq: int
    rank: int
    expires_at: int | None
    box: int = 0
    seen_at: int | None = None
    read_at: int | None = None
    archived_at: int | None = None
    lapsed: str | None = None


class Audience(msgspec.Struct, frozen=True):
    """Where `to` points: some handles, one role, or everyone.  Exactly one of the three.

    `sessions` are those that were addressed (handle, session id): the mail is the agent's, the wake the session's.
    """

    handles: tuple[str, ...] = ()
    role: str | None = None
    everyone: bool = False
    sessions: tuple[tuple[str, str], ...] = ()

    @property
    def is_direct(self) -> bool:
        return self.role is None and not self.everyone

    def addresses(self, handles: Iterable[str]) -> list[str]:
        """These handles as they were addressed: `@bob`, or `@bob/<session_id>`."""
        named: dict[str, list[str]] = {}
        for handle, session_id in self.sessions:
            named.setdefault(handle, []).append(f"{handle}/{session_id}")
        return [address for handle in handles for address in named.get(handle, [handle])]


def parse_audience(to: list[str], sender: str) -> Audience:
    return _remembered(to[0], sender) if len(to) == 1 else _parse_audience(to, sender)


@lru_cache(maxsize=4096)  # whoever writes to somebody writes to them again
def _remembered(word: str, sender: str) -> Audience:
    return _parse_audience([word], sender)


def _parse_audience(to: list[str], sender: str) -> Audience:
    if not to:
        raise InvalidArgument("INVALID_ARGUMENT", "'to' is empty.", "Name at least one recipient.")
    words = [sender + word.removeprefix("@me") if _ME.match(word) else word for word in to]
    wide = [word for word in words if word in (EVERYONE, "@everyone") or word.startswith(ROLE_PREFIX)]
    if wide and len(words) > 1:
        raise InvalidArgument(
            "INVALID_ARGUMENT",
            "A role or everyone cannot be mixed with other recipients.",
            "Send one message to the role and one to the handles, or create a thread with those members.",
        )
    if wide:
        role = wide[0].removeprefix(ROLE_PREFIX) if wide[0].startswith(ROLE_PREFIX) else None
        return Audience(role=parse_role(role)) if role is not None else Audience(everyone=True)
    parts = [_parse_address(word) for word in dict.fromkeys(words)]
    sessions = tuple((handle, session_id) for handle, session_id in parts if session_id is not None)
    return Audience(handles=tuple(dict.fromkeys(handle for handle, _ in parts)), sessions=sessions)


def _parse_address(word: str) -> tuple[str, str | None]:
    """`@bob`, or one session of an agent: `@bob/<session_id>`."""
    handle, slash, session_id = word.partition("/")
    if handle in RESERVED:
        raise InvalidArgument("INVALID_ARGUMENT", f"{handle} cannot receive mail.", "Name an agent or a human.")
    if slash and not _session_id.match(session_id):
        raise InvalidArgument(
            "INVALID_ARGUMENT", f"{word[:80]!r} names no session.", "GET /v1/peers shows the sessions of others."
        )
    return parse_handle(handle), session_id if slash else None


def audience_key(audience: Audience, sender: str) -> str:
    """The name under which the one standing thread of this audience is found."""
    if audience.everyone:
        return EVERYONE
    if audience.role is not None:
        return ROLE_PREFIX + audience.role
    key = " ".join(sorted({sender, *audience.handles}))
    return key if len(key) <= MAX_KEY else CROWD_PREFIX + hashlib.sha256(key.encode()).hexdigest()


def is_standing(key: str | None) -> bool:
    """Is this the key of a role's or everyone's standing thread?"""
    return key is not None and (key == EVERYONE or key.startswith(ROLE_PREFIX))
