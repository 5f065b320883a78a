"""When the open wakes of a subscription are rung: at once after a quiet window, else as one digest at its end.

A ring opens a window.  The first event after the window has passed rings at once; what comes inside it waits for its
end and becomes one digest, which opens the next window.  Whatever else happens, the first queued event waits no longer
than the cap.  A window of 0 rings every event by itself.
"""

from __future__ import annotations

from datetime import timedelta

from wakeline.core.instant import plus


def due_at(rung_at: int | None, first_queued_at: int, window: timedelta, cap: timedelta, now: int) -> int:
    if rung_at is None or rung_at > now:  # a clock that was set back must not silence anybody
        return now
    return max(now, min(plus(rung_at, window), plus(first_queued_at, cap)))
