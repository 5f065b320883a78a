"""A session that goes on whatever happens to the bridge and to the server, as those of real harnesses do."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from tests.bridge.household import House, Session
from wakeline.errors import Unavailable
from wakeline.wire import seat as said

RETOLD = 8
SETTINGS: dict[str, Any] = {
    "lease_seconds": 15,
    "coalesce_seconds": 0,
    "loop_turn_limit": 0,
    "loop_repeat_limit": 0,
    "wake_budget_per_hour": 1_000_000,
    "supervisor_seconds": 1,
    "log_level": "error",
}


class Harness(Session):
    """@bob's: every doorbell begins a turn in which the mail is read.

    It comes back to every bridge, and tells it what the last one may not have kept.  A mark rings once in it.
    """

    def __init__(self, house: House, dice: random.Random, data: Path | None = None) -> None:
        super().__init__(house.seats(data), house.tokens["@bob"], "n1")
        self._bob, self._dice = house.bob, dice
        self.rung_marks: list[str] = []
        self.read: list[str] = []
        self._shown: dict[str, bool] = {}  # marks that the model has seen, and whether their turn has ended

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.seat.hold())
            while True:
                await self._work(await self.rings.get())

    def welcomed(self, welcome: said.Welcome) -> None:
        super().welcomed(welcome)
        for mark, ended in [*self._shown.items()][-RETOLD:]:
            self.seat.say(said.InjectedSaid(marks=[mark], turn_id=mark))
            if ended:
                self.seat.say(said.TurnEnded(turn_id=mark))
        self.seat.say(said.PresenceSaid(presence=self.hello().presence))

    async def rung(self, ring: said.RingSaid) -> said.Rung | None:
        self.rung_marks.append(ring.mark)
        await self._hesitate()
        return await super().rung(ring)

    async def _work(self, ring: said.RingSaid) -> None:
        await self._hesitate()
        self._shown[ring.mark] = False
        await self.start_turn(ring.text, ring.mark)
        await self._hesitate()
        await self._read_mail()
        await self._hesitate()
        self._shown[ring.mark] = True
        self.end_turn(ring.mark)

    async def _hesitate(self) -> None:
        """So that a kill finds every place in between."""
        await asyncio.sleep(self._dice.choice((0, 0, 0.02, 0.1)))

    async def _read_mail(self) -> None:
        """Whoever is cut off asks again, and finds what was not noted as read."""
        noted: list[str] = []
        while True:
            try:
                unread = [one.message_id for one in (await self._bob.get_inbox()).messages]
                self.read += [one for one in noted if one not in unread]
                if not unread:
                    return
                noted = unread
                await self._bob.ack_messages(unread)
            except Unavailable:
                continue
