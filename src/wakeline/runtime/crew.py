"""The adapters of one bridge, and which of them rings in which session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wakeline.adapters.harness import ANY, HarnessAdapter
from wakeline.core.session import Session


class Seating(HarnessAdapter, Protocol):
    """The adapter that companions are connected to."""

    def holds(self, session_id: str) -> bool: ...


class Crew:
    """A companion that is connected comes first; then the adapter of a session's harness and transport."""

    def __init__(self, seats: Seating | None, adapters: Sequence[HarnessAdapter]) -> None:
        self._seats = seats
        self.adapters = tuple(adapters)

    @property
    def transports(self) -> list[str]:
        seats = [] if self._seats is None else [self._seats.transport]
        return list(dict.fromkeys([*seats, *(adapter.transport for adapter in self.adapters)]))

    def adapter_for(self, session: Session) -> HarnessAdapter | None:
        if self._seats is not None and self._seats.holds(session.session_id):
            return self._seats
        for harness in (session.harness, ANY):
            for adapter in self.adapters:
                if (adapter.harness, adapter.transport) == (harness, session.transport):
                    return adapter
        if session.transport is not None:
            return self._seats  # its companion may be about to sit down
        # It does not say by which way it is reached: then by its harness's own, if its wake mode fits.
        fitting = [one for one in self.adapters if (one.harness, one.wake_mode) == (session.harness, session.wake_mode)]
        return fitting[0] if len(fitting) == 1 else None
