"""Ask: note who waits for whose answer, refuse a wait in a circle, and end the wait.

The wait is noted in the commit that stores the question, so two questions that would close a circle cannot miss each
other, on one node or on several.  It holds until its answer is stored, until its asker says that it is over, or until
its time is up; a server that dies in between leaves nothing that does not end by itself.  Humans are no part of it: a
person who waits for one answer can give another.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wakeline.core import waits
from wakeline.core.message import Message
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller, Kind
from wakeline.core.records import Wait
from wakeline.errors import Conflict
from wakeline.flow import trace

_encode = msgspec.json.Encoder().encode
_replace = msgspec.structs.replace


def check(picture: Picture, caller: Caller, message_id: str, asked: Sequence[str], length: int) -> Wait | None:
    """The wait to note, if one is asked for; refused where it would close a circle."""
    if not length or caller.kind != Kind.AGENT or not 0 < len(asked) <= waits.MOST_ASKED:
        return None
    settled = {message_id, *(message.in_reply_to for message in picture.changes.messages.values())}
    edges = waits.live(picture.waits.values(), settled, picture.now)
    circle = waits.cycle(caller.handle, asked, edges)
    if circle is not None:
        raise Conflict("WAIT_CYCLE", f"Nobody could answer: {' waits for '.join(circle)}.", cycle=circle)
    return Wait(caller.workspace_id, message_id, caller.handle, _encode(asked).decode(), picture.now + length)


def renew(picture: Picture, caller: Caller, message_id: str, length: int) -> None:
    """The same question again waits on, unless it would now wait in a circle."""
    before = picture.waits.get(message_id)
    wait = None if before is None else check(picture, caller, message_id, waits.decode(before.asked), length)
    if wait is not None:
        picture.put_wait(wait)


class EndWait(msgspec.Struct, frozen=True):
    """The asker waits no longer.  With a reply, the asker has seen it and takes it up."""

    caller: Caller
    message_id: str
    reply: str | None

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        if self.reply is not None:
            needs.messages.add(self.reply)
            needs.receipts.add((self.reply, self.caller.handle))

    def decide(self, picture: Picture) -> None:
        reply = picture.messages.get(self.reply or "")
        if reply is not None:
            self._see(picture, reply)
            trace.take_up(picture, self.caller, [reply])
        if self.caller.kind == Kind.AGENT:
            # Whom it asked stands in the row that is there; only the end moves.
            picture.put_wait(Wait(self.workspace_id, self.message_id, self.caller.handle, "[]", picture.now))

    def _see(self, picture: Picture, reply: Message) -> None:
        receipt = picture.receipts.get((reply.thread_id, reply.seq, self.caller.handle))
        if receipt is not None and receipt.seen_at is None:
            picture.put_receipt(_replace(receipt, seen_at=picture.now))
