"""What probes of harnesses found, on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from wakeline.wire.common import NO_NUL, Answer, Instant, Request
from wakeline.wire.sessions import Level, Text, Word

Grade = Literal["pass", "partial", "fail", "conditional", "n/a"]
Seen = Annotated[str, Meta(max_length=500, pattern=NO_NUL)]
Why = Annotated[str, Meta(max_length=2_048, pattern=NO_NUL)]


class VerdictSaid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One level: how it came out, why if it did not pass, and what was seen."""

    level: Level
    result: Grade
    reason: Why | None = None
    evidence: Annotated[dict[Word, Seen], Meta(max_length=16)] = {}
    latency_ms: Annotated[float, Meta(ge=0, le=1e9)] | None = None


class RecordProof(Request, frozen=True):
    harness: Word
    transport: Word
    version: Text
    verdicts: Annotated[list[VerdictSaid], Meta(min_length=1, max_length=9)]


class ProofView(Answer, frozen=True):
    """`shipped`: found by our own tests, and part of the program."""

    harness: str
    transport: str
    version: str
    levels: dict[str, str]
    shipped: bool
    verdicts: list[VerdictSaid]
    proven_by: str | None = None
    proven_at: Instant | None = None


class Proofs(Answer, frozen=True):
    proofs: list[ProofView]
