"""What a companion tells of its session's turns, as observations: presence, our marks in prompts, the ends of turns."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Protocol

from wakeline.core.observation import LAST_SENT, Injected, Noticed, Observation, Processed
from wakeline.core.session import Presence
from wakeline.wire import seat as said

MARK = re.compile(r"\bwl-[0-9A-HJKMNP-TV-Z]{26}\b")
MOST_TURNS = 8  # that are remembered at once
MOST_MARKS = 100


class Observer(Protocol):
    async def report(self, seen: Observation) -> None: ...

    async def announce(
        self, session_id: str, turn_id: str | None, shown: tuple[str, ...]
    ) -> tuple[str | None, list[str]]: ...


class Turns:
    """Which marks are in which turn, so that the turn's end is theirs too."""

    def __init__(self, observer: Observer, session_id: str, presence: str, source: str) -> None:
        self.presence = presence
        self._observer = observer
        self._session_id = session_id
        self._source = source
        self._marks: OrderedDict[str | None, tuple[str, ...]] = OrderedDict()

    async def presence_said(self, news: said.PresenceSaid) -> None:
        await self._notice(news.presence, news.turn_id)

    async def started(self, turn: said.TurnStarted) -> tuple[str | None, list[str]]:
        """A prompt that holds our marks is their receipt; one that does not is told what waits."""
        shown = marks_in(turn.text)
        woke = self.presence != Presence.ACTIVE
        await self._notice(Presence.ACTIVE, turn.turn_id)
        self._remember(turn.turn_id, shown)
        if shown:
            await self._observer.report(Injected(self._session_id, shown, turn.turn_id, woke))
        return await self._observer.announce(self._session_id, turn.turn_id, shown)

    async def injected(self, news: said.InjectedSaid) -> None:
        marks = tuple(mark for mark in news.marks if MARK.fullmatch(mark))[:MOST_MARKS]
        turn_id = news.turn_id or self._current
        self._remember(turn_id, marks)
        if marks:
            await self._observer.report(Injected(self._session_id, marks, turn_id))

    async def ended(self, turn: said.TurnEnded) -> None:
        marks = self._marks.pop(turn.turn_id if turn.turn_id in self._marks else self._current, ())
        if marks:
            last = turn.last[:LAST_SENT]
            await self._observer.report(Processed(self._session_id, marks, turn.turn_id, turn.status, last))
        await self._notice(Presence.IDLE, None)

    async def _notice(self, presence: str, turn_id: str | None) -> None:
        self.presence = presence
        await self._observer.report(Noticed(self._session_id, Presence(presence), turn_id, self._source))

    @property
    def _current(self) -> str | None:
        return next(reversed(self._marks), None)

    def _remember(self, turn_id: str | None, marks: tuple[str, ...]) -> None:
        known = self._marks.pop(turn_id, ())
        self._marks[turn_id] = tuple(dict.fromkeys([*known, *marks]))[:MOST_MARKS]
        while len(self._marks) > MOST_TURNS:
            self._marks.popitem(last=False)


def marks_in(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(MARK.findall(text)))[:MOST_MARKS]
