"""What a probe of a harness found, level by level, and the block in which it is shown.

The levels, their names and the words for a result are those of the delivery levels that all harnesses are compared by:
D0 to D8, each `pass`, `partial`, `fail`, `conditional` or `n/a`, and a reason wherever it is not `pass`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

NAMES: Mapping[str, str] = {
    "D0": "live_session",
    "D1": "native_free_continuation",
    "D2": "receiver_armed",
    "D3": "addressed_enqueue",
    "D4": "idle_active_wake",
    "D5": "context_injection",
    "D6": "continuity",
    "D7": "completion_reply",
    "D8": "robustness",
}


class Grade(StrEnum):
    PASS = "pass"  # noqa: S105 - a grade, not a word to get in by
    PARTIAL = "partial"
    FAIL = "fail"
    CONDITIONAL = "conditional"  # said by others: our probe's conditions are those of the transport that it names
    NOT_APPLICABLE = "n/a"


class Verdict(msgspec.Struct, frozen=True):
    """One level: how it came out, why if it did not pass, and what was seen."""

    level: str
    result: Grade
    reason: str | None = None
    evidence: dict[str, str] = {}
    latency_ms: float | None = None


class Diagnosis(msgspec.Struct, frozen=True):
    """All levels of one harness, in one version, reached by one transport."""

    harness: str
    version: str
    transport: str
    verdicts: list[Verdict]

    @property
    def levels(self) -> dict[str, str]:
        return {verdict.level: str(verdict.result) for verdict in self.verdicts}

    @property
    def healthy(self) -> bool:
        """Nothing failed.  What works in part, under a condition or not for this harness is no fault of today."""
        return bool(self.verdicts) and all(verdict.result is not Grade.FAIL for verdict in self.verdicts)


def block(found: Diagnosis) -> str:
    """The block that people and parsers compare across harnesses."""
    lines = ["DELIVERY_LEVELS:", f"harness={found.harness}", f"transport={found.transport}"]
    return "\n".join((*lines, *map(_line, found.verdicts)))


def _line(verdict: Verdict) -> str:
    words = [f"{verdict.level} {NAMES[verdict.level]}: {verdict.result}"]
    words += [f"{name}={_value(value)}" for name, value in verdict.evidence.items()]
    if verdict.latency_ms is not None:
        words.append(f"latency_ms={verdict.latency_ms:.0f}")
    if verdict.reason:
        words.append(f"reason={_quoted(verdict.reason)}")
    return " ".join(words)


def _value(value: str) -> str:
    return value if value and not any(sign.isspace() or sign in "\"'" for sign in value) else _quoted(value)


def _quoted(text: str) -> str:
    return '"{}"'.format(" ".join(text.split()).replace('"', "'"))


def unreached(levels: Iterable[str], reason: str) -> list[Verdict]:
    """The levels that could not be looked at, because one before them failed."""
    return [Verdict(level, Grade.FAIL, reason) for level in levels]
