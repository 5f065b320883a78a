"""The harnesses that can be connected, by the names that people and sessions use for them."""

from __future__ import annotations

from wakeline.connect.wiring.claude_code import ClaudeCode
from wakeline.connect.wiring.codex import Codex
from wakeline.connect.wiring.opencode import OpenCode
from wakeline.connect.wiring.pi import Pi
from wakeline.connect.wiring.wire import Wiring

WIRINGS: dict[str, Wiring] = {
    "claude-code": ClaudeCode(),
    "codex": Codex(),
    "opencode": OpenCode(),
    "pi": Pi(),
}
