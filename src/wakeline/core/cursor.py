"""Cursors: how far a consumer is confirmed on a stream.  They only move forward.

A cursor is progress, not a target: a subscription that is deleted and made again goes on where it was.
"""

from __future__ import annotations

import msgspec

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
    return Cursor(
        cursor.workspace_id,
        cursor.consumer_id,
        cursor.stream_name,
        cursor.subject_id,
        sequence,
        delivery_id,
        now,
        None,
        now,
    )
