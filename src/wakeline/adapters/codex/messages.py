"""What Codex's app server says, as far as we listen, and what follows from it.  Parsed once, here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from wakeline.core.observation import TurnStatus
from wakeline.core.parcel import MARK_PREFIX
from wakeline.core.session import Presence


class _Said(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Status(_Said, frozen=True):
    type: str
    active_flags: tuple[str, ...] = ()


class Thread(_Said, frozen=True):
    id: str
    status: Status
    cwd: str | None = None
    ephemeral: bool = False
    parent_thread_id: str | None = None
    thread_source: str | None = None


class Item(_Said, frozen=True):
    type: str
    client_id: str | None = None
    text: object = None  # of an `agentMessage`


class Turn(_Said, frozen=True):
    id: str
    status: str
    items: tuple[Item, ...] = ()


class Submission(_Said, frozen=True):
    id: str
    client_user_message_id: str | None = None


class ThreadRead(_Said, frozen=True):
    thread: Thread


class LoadedThreads(_Said, frozen=True):
    data: tuple[str, ...]


class Turns(_Said, frozen=True):
    data: tuple[Turn, ...]


class Queue(_Said, frozen=True):
    data: tuple[Submission, ...]


class Queued(_Said, frozen=True):
    queued_submission: Submission


class Deleted(_Said, frozen=True):
    deleted: bool = False


class Initialized(_Said, frozen=True):
    user_agent: str = ""


class StatusChanged(_Said, frozen=True):
    thread_id: str
    status: Status


class ThreadNamed(_Said, frozen=True):
    """Any notification of which only the thread matters."""

    thread_id: str


class McpServer(msgspec.Struct, frozen=True):
    enabled: bool = True
    env: dict[str, str] | None = None
    http_headers: dict[str, str] | None = None


class Config(msgspec.Struct, frozen=True):
    mcp_servers: dict[str, McpServer] = {}


class ConfigRead(_Said, frozen=True):
    config: Config


# -- what follows -----------------------------------------------------------------------------------------------------

_PRESENCE = {"idle": Presence.IDLE, "active": Presence.ACTIVE, "systemError": Presence.IDLE}
_ENDED: dict[str, TurnStatus] = {"completed": "completed", "failed": "failed", "interrupted": "interrupted"}
RUNNING = "inProgress"
NOT_LOADED = "notLoaded"


def presence_of(status: Status) -> Presence:
    """A thread whose last turn failed (`systemError`) takes the next one.  Any question counts as approval."""
    if status.type == "active" and status.active_flags:
        return Presence.WAITING_ON_APPROVAL
    return _PRESENCE.get(status.type, Presence.UNKNOWN)


def is_session(thread: Thread) -> bool:
    """A human's thread, and none that Codex made beside it for a title or a sub-agent."""
    return not thread.ephemeral and thread.parent_thread_id is None and thread.thread_source in (None, "user")


def marks_of(turn: Turn) -> tuple[str, ...]:
    return tuple(item.client_id for item in turn.items if item.client_id and item.client_id.startswith(MARK_PREFIX))


def last_of(turn: Turn) -> str:
    """What the model said last."""
    said = [item.text for item in turn.items if item.type == "agentMessage" and isinstance(item.text, str)]
    return said[-1] if said else ""


def running_turn(turns: Iterable[Turn]) -> Turn | None:
    return next((turn for turn in turns if turn.status == RUNNING), None)


def has_prompt(turn: Turn) -> bool:
    return any(item.type == "userMessage" for item in turn.items)


def ending_of(turn: Turn) -> TurnStatus | None:
    return _ENDED.get(turn.status)


def ours(queue: Sequence[Submission]) -> list[Submission]:
    return [one for one in queue if (one.client_user_message_id or "").startswith(MARK_PREFIX)]
