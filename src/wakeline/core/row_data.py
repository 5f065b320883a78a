"""What rows of the log say of events that are no messages: one type for each kind that subscriptions can ask for.

Whoever writes such a row makes its data from a type here (`data`), and whoever reads it gets the type back
(`read_row`).  A row that does not fit, of a newer or a faulty node, is a value and no error: one row must not stand in
the way of all that come after it.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from wakeline.core.log import LogEntry

GRANT_ADDED = "grant.added"
HEARTBEAT_PULSE = "heartbeat.pulse"
TASK_STATE_CHANGED = "task.state_changed"
NOTICE_ASSIGNED = "notice.assigned"


class TaskState(StrEnum):
    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    AUTH_REQUIRED = "auth_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"
    EXPIRED = "expired"


class RowData(msgspec.Struct, frozen=True, kw_only=True):
    def data(self) -> dict[str, Any]:
        """As the log takes it."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown


class GrantAdded(RowData, frozen=True):
    scope: str
    grantee: str
    owner: str


class Pulsed(RowData, frozen=True):
    """The row's subject is whose pulse it is."""

    unread: int


class TaskStateChanged(RowData, frozen=True):
    task_id: str
    previous_state: TaskState
    new_state: TaskState
    originator: str
    assignee: str | None = None  # None: nobody has claimed it yet


class NoticeAssigned(RowData, frozen=True):
    notice_id: str
    assignee: str
    title: str
    target: Literal["user", "agent"]
    handler: Literal["system", "agent"]
    deadline: Annotated[datetime, Meta(tz=True)] | None = None


class Misfit(msgspec.Struct, frozen=True):
    """A row whose data is not what its kind says."""

    log_id: int
    kind: str
    why: str


_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    GRANT_ADDED: msgspec.json.Decoder(GrantAdded),
    HEARTBEAT_PULSE: msgspec.json.Decoder(Pulsed),
    TASK_STATE_CHANGED: msgspec.json.Decoder(TaskStateChanged),
    NOTICE_ASSIGNED: msgspec.json.Decoder(NoticeAssigned),
}


def read_row(row: LogEntry) -> RowData | Misfit | None:
    """None: a kind that nobody can ask for."""
    decoder = _decoders.get(row.kind)
    if decoder is None:
        return None
    try:
        found: RowData = decoder.decode(row.data or "{}")
    except (msgspec.DecodeError, UnicodeError) as error:
        return Misfit(row.log_id, row.kind, str(error))
    return found
