"""What Schemathesis must not spend its time on."""

from __future__ import annotations

from typing import Any

import schemathesis


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    """An ask that is accepted waits for an answer that nobody will give."""
    if isinstance(body, dict) and isinstance(body.get("wait_seconds"), int | float):
        return {**body, "wait_seconds": min(body["wait_seconds"], 0.01)}
    return body
