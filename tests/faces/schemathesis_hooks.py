"""What Schemathesis must not spend its time on, and what no schema can tell it."""

from __future__ import annotations

import re
from typing import Any

import schemathesis


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    """What must be refused stays as it is."""
    return _rested(_hurried(body)) if isinstance(body, dict) else body


def _hurried(body: dict[str, Any]) -> dict[str, Any]:
    """An ask that is accepted waits for an answer that nobody will give."""
    seconds = body.get("wait_seconds")
    if isinstance(seconds, float | int) and not isinstance(seconds, bool) and 0 < seconds <= 50:
        return {**body, "wait_seconds": 0.01}
    return body


def _rested(body: dict[str, Any]) -> dict[str, Any]:
    """A pattern cannot say which time zones there are, nor that two times differ."""
    hours = body.get("quiet_hours")
    if not isinstance(hours, dict) or not isinstance(hours.get("time_zone"), str):
        return body
    zone = "UTC" if re.fullmatch(r"[A-Za-z0-9_+/-]{1,64}", hours["time_zone"]) else hours["time_zone"]
    begin = hours.get("from")
    if begin == hours.get("until"):
        begin = "00:01" if begin == "00:00" else "00:00"
    return {**body, "quiet_hours": {**hours, "time_zone": zone, "from": begin}}
