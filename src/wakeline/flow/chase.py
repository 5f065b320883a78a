"""Chase answers: a message that says by when it wants one, and gets none, is brought to the human, once.

`awaited` is set while an answer is wanted, and only such messages are in the index that the sweep reads.  Each one is
settled by a command that looks again: an answer that came meanwhile, another node, or a sweep that was killed half-way
change nothing but who does it.
"""

from __future__ import annotations

import msgspec

from wakeline.core.alarm import NO_ANSWER_BY_DEADLINE, Alarm
from wakeline.core.guardrail import Guardrails
from wakeline.core.message import Message
from wakeline.core.picture import Needs, Picture
from wakeline.core.thread import Status
from wakeline.flow import escalate, guard

_replace = msgspec.structs.replace


def answered(picture: Picture, answer: Message) -> None:
    """Somebody other than the asker has replied: what was awaited is there."""
    asked = picture.messages.get(answer.in_reply_to or "")
    if asked is not None and asked.awaited and asked.sender != answer.sender:
        picture.mark_message(_replace(asked, awaited=0))


class Chase(msgspec.Struct, frozen=True):
    """Settle one message whose deadline has passed.  Answers what fired, if anything did."""

    workspace_id: int
    message_id: str
    rails: Guardrails

    def needs(self, needs: Needs) -> None:
        needs.messages.add(self.message_id)
        escalate.needs(needs)

    def decide(self, picture: Picture) -> guard.Fired | None:
        message = picture.messages.get(self.message_id)
        if message is None or not message.awaited or (message.answer_by or 0) > picture.now:
            return None
        picture.mark_message(_replace(message, awaited=0))
        thread = picture.threads[message.thread_id]
        withdrawn = message.retracted_at is not None or message.superseded_by is not None
        if withdrawn or thread.status in (Status.RESOLVED, Status.CLOSED):
            return None
        return guard.fire(picture, Alarm(NO_ANSWER_BY_DEADLINE, thread, message), self.rails)
