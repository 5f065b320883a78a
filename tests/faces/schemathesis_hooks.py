"""What Schemathesis must not spend its time on."""

from __future__ import annotations

from typing import Any

import schemathesis


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    """An ask that is accepted waits for an answer that nobody will give; one that must be refused stays as it is."""
    return _hurried(body)


@schemathesis.hook
def map_query(context: schemathesis.HookContext, query: Any) -> Any:
    """The same for a wait for mail."""
    return _hurried(query)


def _hurried(request: Any) -> Any:
    given = request.get("wait_seconds") if isinstance(request, dict) else None
    try:
        seconds = float(given) if isinstance(given, float | int | str) and not isinstance(given, bool) else 0.0
    except ValueError:
        return request
    return {**request, "wait_seconds": 0.01} if 0 < seconds <= 50 else request
