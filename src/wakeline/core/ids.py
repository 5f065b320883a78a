"""Identifiers: 26 characters of Crockford base 32 that sort by time.  Randomness is the caller's business."""

from __future__ import annotations

import hashlib
from functools import lru_cache

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]


def ulid(milliseconds: int, randomness: int) -> str:
    return f"{_moment(milliseconds)}{_sixteen(randomness)}"


@lru_cache(maxsize=2)  # a busy server makes many in one millisecond
def _moment(milliseconds: int) -> str:
    return _sixteen(milliseconds)[6:]


def _sixteen(number: int) -> str:
    """Its lowest 80 bits as letters, two at a time and without a loop: every post needs two ids."""
    return (
        f"{_PAIRS[number >> 70 & 1023]}{_PAIRS[number >> 60 & 1023]}{_PAIRS[number >> 50 & 1023]}"
        f"{_PAIRS[number >> 40 & 1023]}{_PAIRS[number >> 30 & 1023]}{_PAIRS[number >> 20 & 1023]}"
        f"{_PAIRS[number >> 10 & 1023]}{_PAIRS[number & 1023]}"
    )


def derived(parent: str, purpose: str) -> str:
    """An id that follows from another one, for rows that a decision makes: deciding twice gives the same id."""
    digest = hashlib.sha256(f"{parent} {purpose}".encode()).digest()
    return f"{parent[:10]}{_sixteen(int.from_bytes(digest[:10]))}"
