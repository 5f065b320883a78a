"""Part of the sweep: find the messages that nobody has answered in time, and settle each with a command of its own."""

from __future__ import annotations

from wakeline.core.guardrail import Guardrails
from wakeline.core.queries import DueAnswers
from wakeline.core.store import Store
from wakeline.flow.chase import Chase

AT_ONCE = 100


async def chase_answers(store: Store, rails: Guardrails) -> int:
    """Answers how many messages were brought to the human.  Safe to run again, and on every node."""
    told, due, before = 0, await _due(store), None
    while due and due != before:  # a page that stays as it was, as after a clock was set back, waits for the next sweep
        for workspace_id, message_id in due:
            told += await store.submit(Chase(workspace_id, message_id, rails)) is not None
        due, before = await _due(store), due
    return told


async def _due(store: Store) -> list[tuple[int, str]]:
    return await store.read(DueAnswers(await store.now(), AT_ONCE))
