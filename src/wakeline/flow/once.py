"""Idempotency: one key, one effect, per (workspace, sender, operation).  The record lives as long as its row."""

from __future__ import annotations

import hashlib
from typing import TypeVar

import msgspec

from wakeline.core.picture import Picture
from wakeline.core.records import IdempotencyRecord
from wakeline.errors import Conflict

A = TypeVar("A", bound=msgspec.Struct)

_encode = msgspec.json.Encoder(order="deterministic").encode


def payload_hash(payload: object) -> str:
    return hashlib.sha256(_encode(payload)).hexdigest()


def earlier(picture: Picture, sender: str, operation: str, key: str | None, digest: str) -> str | None:
    """The first answer (JSON) if this key was used before with this payload; another payload is refused."""
    if key is None:
        return None
    record = picture.idempotency.get((sender, operation, key))
    if record is None:
        return None
    if record.payload_hash != digest:
        raise Conflict(
            "IDEMPOTENCY_CONFLICT",
            f"The key {key!r} was used for another payload.",
            subject=record.subject,
        )
    return record.answer


def remember(
    picture: Picture, sender: str, operation: str, key: str | None, digest: str, subject: str, answer: object
) -> None:
    if key is None:
        return
    encoded = _encode(answer).decode()
    workspace_id = picture.workspace.workspace_id
    picture.put_idempotency(
        IdempotencyRecord(workspace_id, sender, operation, key, digest, subject, encoded, picture.now)
    )
