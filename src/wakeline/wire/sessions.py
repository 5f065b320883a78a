"""Sessions, presence and peers on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from wakeline.wire.common import NO_NUL, Answer, Handle, Instant, Limit, Moment, Query, Request, SessionId, Tag

Presence = Literal["unknown", "idle", "active", "waitingOnApproval", "userTyping"]
WakeMode = Literal["socket", "file-watch", "native-push", "app-server", "piggyback", "none"]
Level = Annotated[str, Meta(pattern=r"^D[0-8]$(?!\n)", examples=["D4"])]
Proof = Literal["pass", "partial", "fail", "conditional", "n/a", "unknown"]
Word = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$(?!\n)", examples=["claude-code"])]
Text = Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_NUL)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]
ProcessId = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**53)]


class HeartbeatSession(Request, frozen=True):
    """What a session says of itself.  What is left out stays as it was said before; null takes it back."""

    session_id: SessionId | UnsetType = UNSET
    harness: Word | UnsetType = UNSET
    harness_version: Text | UnsetType | None = UNSET
    transport: Word | UnsetType | None = UNSET
    native_id: Text | UnsetType | None = UNSET
    host: Text | UnsetType | None = UNSET
    cwd: Path | UnsetType | None = UNSET
    pid: ProcessId | UnsetType | None = UNSET
    pid_started_at: Moment | UnsetType | None = UNSET
    wake_mode: WakeMode | UnsetType = UNSET
    replyable: bool | UnsetType = UNSET
    capabilities: Annotated[list[Tag], Meta(max_length=32)] | UnsetType = UNSET
    levels: Annotated[dict[Level, Proof], Meta(max_length=9)] | UnsetType = UNSET
    presence: Presence | UnsetType = UNSET
    active_turn_id: Text | UnsetType | None = UNSET
    presence_source: Word | UnsetType = UNSET
    context_tokens: Count | UnsetType | None = UNSET
    context_limit: Count | UnsetType | None = UNSET
    resumable: bool | UnsetType = UNSET
    task_id: Text | UnsetType | None = UNSET
    branch: Text | UnsetType | None = UNSET


class Attended(Answer, frozen=True):
    session_id: str
    presence: str
    unread: int
    doorbell: str | None


class SessionView(Answer, frozen=True):
    session_id: str
    handle: str
    harness: str
    harness_version: str | None
    transport: str | None
    native_id: str | None
    host: str | None
    cwd: str | None
    pid: int | None
    pid_started_at: Instant | None
    wake_mode: str
    replyable: bool
    capabilities: list[str]
    levels: dict[str, str]
    presence: str
    active_turn_id: str | None
    presence_source: str
    presence_at: Instant
    context_tokens: int | None
    context_limit: int | None
    resumable: bool
    task_id: str | None
    branch: str | None
    started_at: Instant
    last_seen_at: Instant
    ended_at: Instant | None
    dormant: bool
    liveness: str


class Sessions(Answer, frozen=True):
    sessions: list[SessionView]


class SessionsQuery(Query, frozen=True):
    handle: Handle | None = None
    ended: bool = False
    limit: Limit = 100


class EndSession(Request, frozen=True):
    pass


class PeerView(Answer, frozen=True):
    """One session of one principal; without a session, what is about sessions is null."""

    handle: str
    kind: str
    unread: int
    session_id: str | None = None
    backend: str | None = None
    replyable: bool | None = None
    wake_mode: str | None = None
    levels: dict[str, str] | None = None
    presence: str | None = None
    liveness: str | None = None
    dormant: bool | None = None
    last_seen_at: Instant | None = None
    resumable: bool | None = None
    task_id: str | None = None
    branch: str | None = None
    cwd: str | None = None
    pid: int | None = None


SHARED_WITH_PEERS = (
    "session_id",
    "replyable",
    "wake_mode",
    "levels",
    "presence",
    "liveness",
    "dormant",
    "last_seen_at",
    "resumable",
    "task_id",
    "branch",
)


class Peers(Answer, frozen=True):
    peers: list[PeerView]
