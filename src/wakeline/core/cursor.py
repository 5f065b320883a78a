"""Cursors: how far a consumer is confirmed on a stream.  They only move forward.

A cursor is progress, not a target: a subscription that is deleted and made again goes on where it was.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from wakeline.errors import Conflict


class Cursor(msgspec.Struct, frozen=True, array_like=True, gc=False):
    workspace_id: int
    consumer_id: str
    stream_name: str
    subject_id: str  # empty: the whole stream
    last_sequence: int
    last_delivery_id: str | None
    last_delivered_at: int | None
    last_error: str | None
    updated_at: int


ERROR_BYTES = 2_048


def nowhere(workspace_id: int, consumer_id: str, stream_name: str, subject_id: str) -> Cursor:
    """The cursor of a consumer that nothing was confirmed for yet: told apart from one that stalled by its zeros."""
    return Cursor(workspace_id, consumer_id, stream_name, subject_id, 0, None, None, None, 0)


def fail(cursor: Cursor, error: str, now: int) -> Cursor:
    """Where it is, with why it does not go on."""
    kept = error.encode("utf-8", "replace")[:ERROR_BYTES].decode("utf-8", "ignore")
    return replace(cursor, last_error=kept, updated_at=now)


def reset(cursor: Cursor, sequence: int, now: int) -> Cursor:
    """The only way back.  Whoever takes it has to say why; the log keeps that."""
    return replace(cursor, last_sequence=sequence, last_delivery_id=None, last_error=None, updated_at=now)


def advance(cursor: Cursor, sequence: int, delivery_id: str, now: int) -> Cursor:
    """The cursor after a confirmed delivery.  The same delivery again changes nothing; going back is refused."""
    if (sequence, delivery_id) == (cursor.last_sequence, cursor.last_delivery_id):
        return cursor
    if sequence <= cursor.last_sequence:
        raise Conflict(
            "NON_MONOTONIC_CURSOR",
            f"The cursor of {cursor.consumer_id} is at {cursor.last_sequence} and cannot go to {sequence}.",
            last_sequence=cursor.last_sequence,
        )
    return replace(
        cursor,
        last_sequence=sequence,
        last_delivery_id=delivery_id,
        last_delivered_at=now,
        last_error=None,
        updated_at=now,
    )
