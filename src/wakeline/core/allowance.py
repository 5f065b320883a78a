"""How often something may happen to an agent in an hour: a bucket that refills evenly, beside the senders' buckets."""

from __future__ import annotations

from wakeline.core.records import Bucket

_MILLION = 1_000_000
_HOUR_SECONDS = 3_600


def bucket_name(handle: str) -> str:
    return f"wake:{handle}"


def activation_bucket(handle: str) -> str:
    return f"activation:{handle}"


def take_wake(bucket: Bucket | None, workspace_id: int, handle: str, per_hour: int, now: int) -> Bucket | int:
    """The bucket after one wake, or the instant when the next one is allowed."""
    return take(bucket, workspace_id, bucket_name(handle), per_hour, now)


def take(bucket: Bucket | None, workspace_id: int, name: str, per_hour: int, now: int) -> Bucket | int:
    full = per_hour * _MILLION
    level = full
    if bucket is not None:
        # A clock that was set back must not silence anybody until it has caught up: a step counts as time.
        level = min(full, bucket.level + abs(now - bucket.counted_at) * per_hour // _HOUR_SECONDS)
    if level < _MILLION:
        # From what was counted, where it can be: whoever asks again is given the same instant.
        known, since = (bucket.level, bucket.counted_at) if bucket and bucket.counted_at <= now else (level, now)
        return since + -(-(_MILLION - known) * _HOUR_SECONDS // per_hour)
    return Bucket(workspace_id, name, level - _MILLION, now)
