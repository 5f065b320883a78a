"""Identifiers: 26 characters of Crockford base 32 that sort by time.  Randomness is the caller's business."""

from __future__ import annotations

import hashlib
from functools import lru_cache

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]


def encode(number: int, length: int) -> str:
    """The lowest `length` letters, an even number of them, two at a time: every post needs two ids."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(5 * length - 10, -1, -10)])


def ulid(milliseconds: int, randomness: int) -> str:
    return _moment(milliseconds) + encode(randomness, 16)


@lru_cache(maxsize=2)  # a busy server makes many in one millisecond
def _moment(milliseconds: int) -> str:
    return encode(milliseconds, 10)


def derived(parent: str, purpose: str) -> str:
    """An id that follows from another one, for rows that a decision makes: deciding twice gives the same id."""
    digest = hashlib.sha256(f"{parent} {purpose}".encode()).digest()
    return parent[:10] + encode(int.from_bytes(digest[:10]), 16)
