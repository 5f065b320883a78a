"""What one session of an opencode server is doing, told by the events of that server.  Events in, observations out.

A doorbell is in the model's context when a message of the assistant begins that answers it or something later; a user
message in the history alone is not that, for a rejected permission ends a turn without a look at new messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wakeline.adapters.opencode.history import ABORTED, Message, Shown, is_interrupted, letters_in, shown_in, turn_of
from wakeline.adapters.opencode.letter import Letter, is_ours, letter_of
from wakeline.core.observation import Injected, Noticed, Observation, Processed, TurnStatus
from wakeline.core.session import Presence

MOST_POKES = 3
MOST_STORED = 64
RECALLED = 8  # doorbells of an earlier life
SOURCE = "opencode"

Properties = Mapping[str, Any]


class ServedSession:
    def __init__(self, session_id: str, native_id: str, directory: str | None = None) -> None:
        self.session_id = session_id
        self.native_id = native_id
        self.directory = directory
        self.busy = False
        self.recalled = False  # what its history tells is known
        self.interrupted = False  # the human pressed Esc and has not spoken since
        self.asked: set[str] = set()  # permissions and questions that wait for the human
        self.letters: dict[str, Letter] = {}
        self.handover: str | None = None  # what was unread when the session began: mail to oneself never rings
        self._stored: dict[str, int] = {}  # message of a human or ours → when opencode stored it, the newest only
        self._status: TurnStatus = "completed"
        self._turn: str | None = None
        self.answer: str | None = None  # the newest message of the assistant
        self._handlers: dict[str, Callable[[Properties], list[Observation]]] = {
            "session.status": self._on_status,
            "session.error": self._on_error,
            "message.updated": self._on_message,
            "permission.asked": self._on_asked,
            "permission.replied": self._on_answered,
            "question.asked": self._on_asked,
            "question.replied": self._on_answered,
            "question.rejected": self._on_answered,
        }

    @property
    def presence(self) -> Presence:
        if self.asked:
            return Presence.WAITING_ON_APPROVAL
        return Presence.ACTIVE if self.busy else Presence.IDLE

    def notice(self) -> Noticed:
        return Noticed(self.session_id, self.presence, self._turn, SOURCE)

    def stranded(self) -> list[Letter]:
        """What the model did not see although the turn is over: to be prompted again, unless the human said stop."""
        if self.busy or self.interrupted:
            return []
        return [one for one in self.unseen() if not one.unwanted and one.pokes < MOST_POKES]

    def unseen(self) -> list[Letter]:
        """What is in the history, and no call of the model has held yet."""
        return [letter for letter in self.letters.values() if not letter.shown]

    def discardable(self) -> set[str]:
        """The messages that tell only of mail that was read, and that no call of the model has held."""
        wanted = {letter.message_id for letter in self.letters.values() if letter.shown or not letter.unwanted}
        return {letter.message_id for letter in self.letters.values()} - wanted

    def discard(self, message_id: str) -> None:
        self.letters = {mark: letter for mark, letter in self.letters.items() if letter.message_id != message_id}

    def announce(self, text: str, marks: Sequence[str]) -> Letter:
        """One message for all of them.  What is stored is not prompted again: the next call of the model sees it."""
        first = letter_of(marks[0], text)
        for mark in marks:
            self.letters[mark] = replace(first, mark=mark, pokes=MOST_POKES)
        return first

    def hear(self, kind: str, properties: Properties) -> list[Observation]:
        handler = self._handlers.get(kind)
        return [] if handler is None else handler(properties)

    def recall(self, history: Sequence[Message], *, running: bool) -> list[Observation]:
        """What happened while nobody followed, from the history as it is stored: also to who heard some of it before.

        What the model has not seen is not prompted again for that: it may have been stored for the human's next words.
        """
        self.recalled, self.busy = True, running
        self.interrupted = is_interrupted(history)
        for info in (one["info"] for one in history if one["info"].get("role") == "user"):
            self._keep(info)
        for letter in letters_in(history)[-RECALLED:]:
            letter.pokes = MOST_POKES
            self.letters.setdefault(letter.mark, letter)
        self._turn = turn_of(history) if running else None
        shown = [one for one in shown_in(history) if one.mark in self.letters]
        return [*(told for one in shown for told in self._recalled(one)), self.notice()]

    def _recalled(self, shown: Shown) -> list[Observation]:
        """An answer that was never finished died with its process, unless it is still being given."""
        injected = Injected(self.session_id, (shown.mark,), shown.turn_id)
        if shown.turn_id == self._turn:
            self.letters[shown.mark].shown = True
            return [injected]
        del self.letters[shown.mark]
        return [injected, Processed(self.session_id, (shown.mark,), shown.turn_id, shown.status or "failed")]

    # -- events -------------------------------------------------------------------------------------------------------

    def _on_status(self, properties: Properties) -> list[Observation]:
        kind = properties.get("status", {}).get("type")
        if kind == "idle":
            return self._settle()
        if not self.busy:
            self._status = "completed"
        self.busy = True
        return [self.notice()]

    def _settle(self) -> list[Observation]:
        if not self.busy:
            return []
        self.busy = False
        self.asked.clear()
        self.interrupted = self._status == "interrupted"
        marks = tuple(mark for mark, letter in self.letters.items() if letter.shown)
        ended = Processed(self.session_id, marks, self._turn, self._status)
        self.letters = {mark: letter for mark, letter in self.letters.items() if not letter.shown}
        self._turn = None
        return [*([ended] if marks else []), self.notice()]

    def _on_error(self, properties: Properties) -> list[Observation]:
        self._fail(properties.get("error"))
        return []

    def _on_message(self, properties: Properties) -> list[Observation]:
        info = properties.get("info", {})
        if info.get("role") == "user":
            return self._hear_user(info)
        if info.get("error"):
            self._fail(info["error"])
        if info.get("id") == self.answer:
            return []
        self.answer = info.get("id")
        self._turn = info.get("parentID")
        return self._show(info)

    def _hear_user(self, info: Properties) -> list[Observation]:
        if info["id"] not in self._stored and not is_ours(info["id"]):
            self.interrupted = False
        self._keep(info)
        return []

    def _on_asked(self, properties: Properties) -> list[Observation]:
        self.asked.add(str(properties.get("id")))
        return [self.notice()]

    def _on_answered(self, properties: Properties) -> list[Observation]:
        self.asked.discard(str(properties.get("requestID")))
        return [self.notice()]

    # -- what was seen ------------------------------------------------------------------------------------------------

    def _keep(self, info: Properties) -> None:
        self._stored[info["id"]] = int(info.get("time", {}).get("created", 0))
        while len(self._stored) > MOST_STORED:
            del self._stored[next(iter(self._stored))]

    def _show(self, answer: Properties) -> list[Observation]:
        until = self._stored.get(str(answer.get("parentID")), -1)
        seen = [letter for letter in self.unseen() if 0 <= self._stored.get(letter.message_id, -1) <= until]
        for letter in seen:
            letter.shown = True
        marks = tuple(letter.mark for letter in seen)
        return [Injected(self.session_id, marks, self._turn)] if marks else []

    def _fail(self, error: Any) -> None:
        aborted = isinstance(error, Mapping) and error.get("name") == ABORTED
        self._status = "interrupted" if aborted else "failed"
