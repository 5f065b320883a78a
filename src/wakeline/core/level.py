"""What was proven of each way into a harness, and for which versions: routing goes by this and by nothing else.

A proof is for a harness, a transport and a version as the harness spells it; `ANY_VERSION` is for what we ship
ourselves.  Levels are D0 to D8; a result is `pass`, `partial`, `fail`, `conditional` or `n/a`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

ANY_VERSION = "*"

Levels = Mapping[str, str]
Proofs = Mapping[tuple[str, str, str], Levels]  # (harness, transport, version)

_WORSE = ("pass", "partial", "conditional", "unknown", "n/a", "fail")  # from what can do most to what can do least
_DENIALS = frozenset(("unknown", "n/a", "fail"))
_ALL: Levels = dict.fromkeys((f"D{number}" for number in range(9)), "pass")
_TYPED: Levels = {**_ALL, **dict.fromkeys(("D2", "D4", "D5"), "n/a"), "D7": "partial", "D8": "partial"}

# What our doctor has found with the real harness (docs/levels.json), and what our own companion is made for.
SHIPPED: Proofs = {
    ("claude-code", "inbox-socket", "2.1.325"): _ALL,
    ("claude-code", "async-rewake", "2.1.325"): _ALL,
    ("claude-code", "watch-paths", "2.1.325"): _ALL,
    ("claude-code", "tmux", "2.1.325"): {**_TYPED, "D8": "pass"},
    ("codex", "app-server", "0.166.0"): _ALL,
    ("codex", "queue-command", "0.166.0"): {**_ALL, "D8": "partial"},
    ("codex", "tmux", "0.166.0"): _TYPED,
    ("opencode", "plugin", "1.18.33"): _ALL,
    ("opencode", "served", "1.18.33"): _ALL,
    ("pi", "extension", "0.87.1"): _ALL,
    ("pi", "tmux", "0.87.1"): _TYPED,
    ("reference", "seat", ANY_VERSION): {level: result for level, result in _ALL.items() if level != "D8"},
}


def proven(harness: str, transport: str, version: str | None, proofs: Proofs = SHIPPED) -> Levels:
    """What is known to work; nothing for a version that nobody has looked at."""
    exact = proofs.get((harness, transport, version or ""))
    return exact if exact is not None else proofs.get((harness, transport, ANY_VERSION), {})


def admitted(known: Levels, said: Levels) -> Levels:
    """What a session is routed by: what is known of the way to it.  Its own word may only lower that."""
    lowered = {level: max(result, said.get(level, result), key=_WORSE.index) for level, result in known.items()}
    denied = {level: result for level, result in said.items() if level not in known and result in _DENIALS}
    return {**lowered, **denied}


class Proof(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a probe on one of our machines found.  It is stored, and counts for more than what we ship."""

    workspace_id: int
    route: str
    harness: str
    transport: str
    version: str
    levels: str  # JSON: level → result
    verdicts: str  # JSON: every level with its reason and what was seen
    proven_by: str
    proven_at: int


def route_of(harness: str, transport: str, version: str) -> str:
    """What a proof is stored and found by."""
    return f"{harness} {transport} {version}"
