"""What Schemathesis must not spend its time on."""

from __future__ import annotations

from typing import Any

import schemathesis


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    """An ask that is accepted waits for an answer that nobody will give; one that must be refused stays as it is."""
    seconds = body.get("wait_seconds") if isinstance(body, dict) else None
    if isinstance(seconds, float | int) and not isinstance(seconds, bool) and 0 < seconds <= 50:
        return {**body, "wait_seconds": 0.01}
    return body
