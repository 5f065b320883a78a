"""Quiet hours and do-not-disturb."""

from __future__ import annotations


def quiet_until(quiet: str | None, dnd_until: int | None, now: int) -> int | None:
    return dnd_until if dnd_until is not None and dnd_until > now else None
