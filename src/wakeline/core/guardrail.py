"""Guardrails: how large, how often, and with which tags a principal may post.  Counters are rows, not memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from wakeline.core.principal import Caller
from wakeline.core.records import Bucket
from wakeline.errors import Forbidden, InvalidArgument, RateLimited, TooLarge

MAX_DEPTH = 32
_MILLION = 1_000_000
_encode = msgspec.json.Encoder().encode


class Guardrails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    rate_per_second: int = 100
    rate_burst: int = 1000
    subject_limit: int = 200
    body_limit: int = 262_144
    restricted_tags: tuple[str, ...] = ("system", "override")
    direct_messages: str = "open"
    direct_wake_policy: str = "immediate"
    broadcast_wake_policy: str = "next_turn"
    dead_letters_per_sender: int = 100
    dead_letter_bytes: int = 65_536
    loop_turn_limit: int = 20
    loop_repeat_limit: int = 3
    loop_chain_limit: int = 8
    status_flip_limit: int = 4
    cause_minutes: int = 15
    human_handle: str = "@human"


def check_size(subject: str | None, body: str, rails: Guardrails) -> None:
    if subject is not None and len(subject) > rails.subject_limit:
        raise TooLarge(
            "SUBJECT_TOO_LONG",
            f"The subject has {len(subject)} characters; at most {rails.subject_limit} are accepted.",
            rule="subject_limit",
            limit=rails.subject_limit,
        )
    if len(body) > rails.body_limit or (len(body) * 4 > rails.body_limit and len(body.encode()) > rails.body_limit):
        raise TooLarge(
            "BODY_TOO_LARGE",
            f"The body is larger than {rails.body_limit} bytes.",
            rule="body_limit",
            limit=rails.body_limit,
        )


def store_metadata(metadata: dict[str, Any] | None, rails: Guardrails) -> str | None:
    """The metadata as it is stored.  What is nested too deep would break whoever reads it, so it is never kept."""
    if metadata is None:
        return None
    if _is_deeper(metadata, MAX_DEPTH):
        raise InvalidArgument(
            "INVALID_ARGUMENT", f"'metadata' is nested deeper than {MAX_DEPTH} levels.", "Flatten it."
        )
    encoded = _encode(metadata)
    if len(encoded) > rails.body_limit:
        raise TooLarge(
            "BODY_TOO_LARGE",
            f"The metadata is larger than {rails.body_limit} bytes.",
            rule="body_limit",
            limit=rails.body_limit,
        )
    return encoded.decode()


def _is_deeper(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        return levels == 0 or any(_is_deeper(child, levels - 1) for child in value.values())
    return isinstance(value, list) and (levels == 0 or any(_is_deeper(child, levels - 1) for child in value))


def check_tags(tags: Iterable[str], caller: Caller, rails: Guardrails) -> None:
    if caller.manages_threads:
        return
    for tag in tags:
        if tag in rails.restricted_tags:
            raise Forbidden(
                "RESTRICTED_TAG", f"The tag {tag!r} is reserved for coordinators and humans.", rule="restricted_tags"
            )


def take(bucket: Bucket | None, workspace_id: int, sender: str, rails: Guardrails, now: int) -> Bucket:
    """One message out of the sender's bucket, refilled for the time since it was last counted."""
    full = rails.rate_burst * _MILLION
    level = full
    if bucket is not None:
        # A clock that was set back must not lock anybody out until it has caught up: a step counts as time.
        elapsed = abs(now - bucket.counted_at)
        level = min(full, bucket.level + elapsed * rails.rate_per_second)
    if level < _MILLION:
        wait = (_MILLION - level) / rails.rate_per_second / _MILLION
        raise RateLimited(
            "RATE_LIMITED",
            f"{sender} may send {rails.rate_per_second} messages per second, {rails.rate_burst} at once.",
            rule="rate_per_second",
            retry_after_seconds=max(0.001, round(wait, 3)),
        )
    return Bucket(workspace_id, sender, level - _MILLION, now)
