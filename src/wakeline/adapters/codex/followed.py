"""One thread that is a session of ours: how it was last seen, and what was already told of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wakeline.adapters.codex.messages import (
    Status,
    Turn,
    ending_of,
    has_prompt,
    last_of,
    marks_of,
    presence_of,
    running_turn,
)
from wakeline.core.observation import LAST_SENT, Injected, Noticed, Observation, Processed, TurnStatus
from wakeline.core.session import Presence

SOURCE = "app-server"
LOOKS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
REMEMBERED_TURNS = 100
CERTAIN_SECONDS = 1.0


@dataclass(slots=True)
class Followed:
    thread_id: str
    session_id: str
    status: Status
    look_at: float | None = None
    _looks: int = 0
    _told: tuple[Presence, str | None] | None = None
    _injected: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by turn
    _ended: set[str] = field(default_factory=set)
    _doubted: dict[str, float] = field(default_factory=dict)  # since when a turn is said to be interrupted

    def change(self, status: Status) -> None:
        self.status, self._looks = status, 0

    def confirm(self, status: Status) -> None:
        """It was looked at without need: how it is is told again, as a sign of life."""
        self.status, self._told = status, None

    def news(self, turns: tuple[Turn, ...], woke: Callable[[str], bool], now: float) -> list[Observation]:
        """What was not told yet.  Marks first: what a turn held is known before its thread is said to be idle."""
        found = [seen for turn in reversed(turns) for seen in self._progress(turn, woke, now)]
        running = running_turn(turns)
        state = (presence_of(self.status), None if running is None else running.id)
        if state != self._told:
            self._told = state
            found.append(Noticed(self.session_id, state[0], state[1], SOURCE))
        return found

    def _progress(self, turn: Turn, woke: Callable[[str], bool], now: float) -> list[Observation]:
        marks = marks_of(turn)
        found: list[Observation] = []
        if not marks:
            return found
        new = tuple(mark for mark in marks if mark not in self._injected.get(turn.id, ()))
        if new:
            self._injected[turn.id] = marks
            found.append(Injected(self.session_id, new, turn.id, any(map(woke, new))))
        ending = ending_of(turn)
        if ending is not None and turn.id not in self._ended and self._is_certain(turn.id, ending, now):
            self._ended.add(turn.id)
            found.append(Processed(self.session_id, marks, turn.id, ending, last_of(turn)[:LAST_SENT]))
        self._forget()
        return found

    def _is_certain(self, turn_id: str, ending: TurnStatus, now: float) -> bool:
        """A turn that ends is called interrupted until its real end is written down: only what stays so was."""
        if ending != "interrupted":
            self._doubted.pop(turn_id, None)
            return True
        if now - self._doubted.setdefault(turn_id, now) < CERTAIN_SECONDS:
            return False
        del self._doubted[turn_id]
        return True

    def _forget(self) -> None:
        while len(self._injected) > REMEMBERED_TURNS:
            oldest = next(iter(self._injected))
            del self._injected[oldest]
            self._ended.discard(oldest)

    def time(self, turns: tuple[Turn, ...], now: float) -> None:
        """Do the turns agree with the status?  If not, one is about to change: look again, less and less often."""
        running = running_turn(turns)
        is_active = self.status.type == "active"
        agrees = (running is not None and has_prompt(running)) if is_active else running is None
        if (agrees and not self._doubted) or self._looks >= len(LOOKS):
            self.look_at = None
            return
        self.look_at = now + LOOKS[self._looks]
        self._looks += 1
