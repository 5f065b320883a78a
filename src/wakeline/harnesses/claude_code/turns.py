"""How a session is, concluded from its hooks and from its entry in the registry.  What was heard in, lines to say out.

Hooks are prompt and exact, but Esc fires none, nor does a dialog's "no".  The entry knows of both, a moment later.  So
an entry counts if it was written after the last hook, or if no hook has come for a while; each of Claude Code's hooks
comes before the entry that it explains.

A turn that ends in the entry without a hook was cut off by the human.  From then on the session counts as one whose
human is typing, until they have spoken: they took the floor, and nothing of ours may take it from them.
"""

from __future__ import annotations

import re
from collections import deque

import msgspec

from wakeline.core.instant import SECOND
from wakeline.harnesses.claude_code.registry import Entry, State
from wakeline.wire.seat import InjectedSaid, Line, PresenceSaid, Renamed, TurnEnded, TurnStarted, TurnStatus
from wakeline.wire.sessions import Presence

SHOWN = 2_000  # how many characters of an answer are passed on
RETOLD = 8  # turns with our marks
SETTLED = 3 * SECOND  # without a hook for so long, the entry is right
SURE = 1 * SECOND  # a turn that began with a prompt has told so by its hook in this time

_MARK = re.compile(r"\bwl-[0-9A-HJKMNP-TV-Z]{26}\b")
_NOT_TYPED = ("<task-notification>", "<cross-session-message", "<system-reminder>")


def marks_in(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_MARK.findall(text)))


class Shown(msgspec.Struct):
    """Marks that were put before the model, in which turn, and how that ended."""

    turn_id: str | None
    marks: tuple[str, ...]
    status: TurnStatus | None = None


class Turns:
    def __init__(self, native_id: str, now: int, *, running: bool = False) -> None:
        self.native_id = native_id
        self.turn_id: str | None = None
        self.stopped = False  # by the human, who has not spoken since
        self._running = running
        self._prompted = False  # the turn began with a prompt, so it ends with a hook, or was cut off
        self._asking = False
        self._heard_at = now
        self._glimpsed = (native_id, now)  # the id in the registry, and since when
        self._told: PresenceSaid | None = None
        self._shown: deque[Shown] = deque(maxlen=RETOLD)

    @property
    def presence(self) -> Presence:
        if self._asking:
            return "waitingOnApproval"
        if self._running:
            return "active"
        return "userTyping" if self.stopped else "idle"

    def told(self) -> PresenceSaid:
        """How it is, whether or not it was said before."""
        self._told = PresenceSaid(presence=self.presence, turn_id=self.turn_id)
        return self._told

    # -- hooks --------------------------------------------------------------------------------------------------------

    def submitted(self, turn_id: str, text: str, now: int) -> list[Line]:
        """A prompt goes to the model: the human's, ours, or another program's.  Also in the middle of a turn."""
        marks = marks_in(text)
        if not marks and not text.startswith(_NOT_TYPED):
            self.stopped = False
        self._heard_at, self.turn_id = now, turn_id or None
        self._running, self._prompted, self._asking = True, True, False
        self._told = PresenceSaid(presence="active", turn_id=self.turn_id)  # the line says so
        self.show(marks)
        return [TurnStarted(turn_id=self.turn_id, text=" ".join(marks))]  # the human's own words are nobody's business

    def show(self, marks: tuple[str, ...]) -> None:
        if marks:
            self._shown.append(Shown(self.turn_id, marks))

    def retold(self) -> list[Line]:
        """For a bridge that came back: what it may not have heard, or not kept.  It knows what it knows already."""
        lines: list[Line] = []
        for shown in self._shown:
            lines.append(InjectedSaid(marks=list(shown.marks), turn_id=shown.turn_id))
            if shown.status is not None:
                lines.append(TurnEnded(turn_id=shown.turn_id, status=shown.status))
        return [*lines, self.told()]

    def ended(self, turn_id: str, status: TurnStatus, last: str, now: int) -> list[Line]:
        self._heard_at = now
        return [*self._end(turn_id or self.turn_id, status, last), *self._changed()]

    def asked(self, now: int) -> list[Line]:
        """A permission is asked for."""
        self._heard_at, self._asking = now, True
        return self._changed()

    def answered(self, now: int) -> list[Line]:
        """A tool has run, so nobody waits for leave to run it."""
        self._heard_at, self._asking = now, False
        return self._changed()

    def began(self, native_id: str, source: str, now: int) -> list[Line]:
        """SessionStart: the conversation goes on under another id, or has just been compacted."""
        self._heard_at = now
        if source != "compact":
            self._finish()
            self.stopped = False
        return [*self._rename(native_id), *self._changed()]

    # -- the registry -------------------------------------------------------------------------------------------------

    def seen(self, entry: Entry, now: int) -> list[Line]:
        if entry.changed_at <= self._heard_at and now - self._heard_at < SETTLED:
            return []
        renamed = self._glimpse(entry.session_id, now)
        match entry.state:
            case State.IDLE | State.SHELL:
                return [*renamed, *self._fell_idle(), *self._changed()]
            case State.BUSY if self._running or now - entry.changed_at >= SURE:
                self._running, self._asking = True, False
            case State.WAITING:
                self._asking = True
            case State.BUSY | None:  # its hook is on the way, or a word of a newer version
                pass
        return [*renamed, *self._changed()]

    def _glimpse(self, native_id: str, now: int) -> list[Line]:
        """Another id, unless its hook is on the way: that knows whether it is another session as well."""
        if native_id != self._glimpsed[0]:
            self._glimpsed = (native_id, now)
        return self._rename(native_id) if now - self._glimpsed[1] >= SETTLED else []

    def _fell_idle(self) -> list[Line]:
        if not self._running and not self._asking:
            return []
        if not self._prompted:
            self._finish()
            return []
        self.stopped = True
        return self._end(self.turn_id, "interrupted", "")

    # -- both ---------------------------------------------------------------------------------------------------------

    def _end(self, turn_id: str | None, status: TurnStatus, last: str) -> list[Line]:
        for shown in self._shown:
            shown.status = shown.status or status
        self._finish()
        self._told = PresenceSaid(presence="idle")  # as who reads the line concludes
        return [TurnEnded(turn_id=turn_id, status=status, last=last[:SHOWN])]

    def _finish(self) -> None:
        self._running = self._prompted = self._asking = False
        self.turn_id = None

    def _rename(self, native_id: str) -> list[Line]:
        if not native_id or native_id == self.native_id:
            return []
        self.native_id = native_id
        return [Renamed(native_id=native_id)]

    def _changed(self) -> list[Line]:
        before = self._told
        return [] if self.told() == before else [self.told()]
