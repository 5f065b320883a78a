"""The log: its rows, who may see each, and positions in it.

A position is `<epoch>-<log_id>`.  The epoch changes when a store is restored from a copy, so that an old position can
never be mistaken for a place in the new history.
"""

from __future__ import annotations

import re

import msgspec

from wakeline.errors import InvalidArgument

THREAD_STREAM = "thread:"
PRINCIPAL_STREAM = "principal:"
WORKSPACE_STREAM = "workspace"
HOST_STREAM = "host:"  # for the bridge of a host, and for who reads everything
UNWANTED = "delivery.unwanted"  # a ring that was taken, and whose mail was read before anybody was shown it

# Rows that change who may do what, and what must be looked at: every node hears of them, also when nobody listens to
# its log (`control_after.sql`).
CONTROL = frozenset(
    {
        "token.revoked",
        "agent.changed",
        "subscription.created",
        "delivery.planned",
        UNWANTED,
        "activation.planned",
    }
)

_position = re.compile(r"([a-z0-9]{1,32})-([0-9]{1,18})")


class Workspace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    workspace_id: int
    name: str
    epoch: str
    version: int  # grows with every batch that wrote anything
    last_log_id: int
    first_log_id: int  # the oldest row that is still kept, last_log_id + 1 when none is
    created_at: int


class LogEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    workspace_id: int
    log_id: int
    kind: str
    stream: str
    stream_seq: int
    actor: str
    subject: str | None
    data: str | None  # JSON; None where the subject's own row says it all
    created_at: int


class Position(msgspec.Struct, frozen=True):
    """`epoch` None: the start of what is kept, whatever the epoch."""

    epoch: str | None
    log_id: int

    def __str__(self) -> str:
        return "0" if self.epoch is None else f"{self.epoch}-{self.log_id}"


def parse_position(text: str) -> Position:
    if text == "0":
        return Position(None, 0)
    match = _position.fullmatch(text)
    if match is None:
        raise InvalidArgument("MALFORMED_POSITION", f"{text[:80]!r} is not a log position.")
    return Position(match[1], int(match[2]))
