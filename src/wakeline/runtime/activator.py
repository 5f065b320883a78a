"""Part of supervision: look at dormant agents with unread mail now and then.  `flow/activate.py` says what is done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from wakeline.core.activation import ActivationRules, Result, Way
from wakeline.core.activation_queries import (
    Dormant,
    DormantAgents,
    LapsedActivations,
    Letter,
    MandateFor,
    RungWakes,
    WakingMail,
)
from wakeline.core.instant import SECOND
from wakeline.core.queries import AllWorkspaces, SessionList
from wakeline.core.store import Store
from wakeline.core.subscription_queries import SubscriptionsOf
from wakeline.core.waking import WakeRules
from wakeline.errors import WakelineError
from wakeline.flow.activate import Activate, Mail
from wakeline.flow.launch import Found, LapseActivations
from wakeline.flow.plan import Stamp

_log = logging.getLogger(__name__)

AT_ONCE = 200
LETTERS = 20
SESSIONS = 20
SUBSCRIPTIONS = 200
UNCLAIMED_SECONDS = 300  # how long a planned one waits for a bridge
_recipients = msgspec.json.Decoder(list[str]).decode


class Activator:
    def __init__(
        self, store: Store, rules: ActivationRules, wake_rules: WakeRules, human: str, new_id: Callable[[], str]
    ) -> None:
        self._store = store
        self._rules = rules
        self._wake_rules = wake_rules
        self._human = human
        self._new_id = new_id

    async def run(self, every_seconds: float) -> None:
        """Every node may run it: the rows say what was done."""
        while True:
            await asyncio.sleep(every_seconds)
            try:
                await self.look()
            except WakelineError as error:
                _log.warning("activation is postponed: %s", error.message)
            except Exception:  # noqa: BLE001 - activation must not take the server with it
                _log.exception("activation failed because of a bug")

    async def look(self) -> None:
        await self._lapse()
        now = await self._store.now()
        since = now - self._rules.dormant_seconds * SECOND
        for workspace in await self._store.read(AllWorkspaces()):
            page, after = [Dormant("", None)], ""
            while page:
                page = await self._store.read(DormantAgents(workspace.workspace_id, since, now, after, AT_ONCE))
                for agent in page:
                    await self._attend(workspace.workspace_id, agent)
                    after = agent.handle

    async def _attend(self, workspace_id: int, agent: Dormant) -> None:
        """Where an ordinary wake found no way in, there is nothing to wait for: what comes next comes now."""
        command = await self._command(workspace_id, agent)
        if command is None:
            return
        row = await self._store.submit(command)
        if row is not None and (row.way, row.result) == (Way.TRIGGER, Result.FAILED):
            again = await self._command(workspace_id, agent)
            if again is not None:
                await self._store.submit(again)

    async def _command(self, workspace_id: int, agent: Dormant) -> Activate | None:
        store, who = self._store, (workspace_id, agent.handle)
        now = await store.now()
        letters = await store.read(WakingMail(*who, 0, now, LETTERS))
        if not letters:
            return None
        sessions = await store.read(SessionList(*who, 1, 0, SESSIONS))
        mandates = await store.read(MandateFor(*who))
        subscriptions = await store.read(SubscriptionsOf(*who, "", SUBSCRIPTIONS))
        rung = await store.read(RungWakes(*who, now, LETTERS))
        places = [one.host for one in sessions] + [one.host for one in mandates]
        return Activate(
            workspace_id,
            agent.handle,
            tuple(Mail(one.message_id, one.thread_id, one.log_id, one.created_at) for one in letters),
            agent.message_id,
            tuple(one.session_id for one in sessions),
            _addressed(letters[0], agent.handle),
            tuple(sorted({place for place in places if place is not None})),
            tuple(one.subscription_id for one in subscriptions),
            tuple((one.subscription_id, one.log_id) for one in rung),
            self._rules,
            self._wake_rules,
            Stamp(self._new_id(), ""),
        )

    async def _lapse(self) -> None:
        now = await self._store.now()
        rows = await self._store.read(LapsedActivations(now, now - UNCLAIMED_SECONDS * SECOND, AT_ONCE))
        for row in rows:
            found = Found(row.activation_id, row.handle, row.message_id)
            await self._store.submit(
                LapseActivations(row.workspace_id, (found,), UNCLAIMED_SECONDS, self._rules, self._human)
            )


def _addressed(letter: Letter, handle: str) -> str | None:
    """The session that a message was written to, if it names one of this agent's."""
    prefix = f"{handle}/"
    return next((to.removeprefix(prefix) for to in _recipients(letter.recipients) if to.startswith(prefix)), None)
