"""Take a message back before anybody has read it."""

from __future__ import annotations

import msgspec

from wakeline.core import policy
from wakeline.core.log import THREAD_STREAM
from wakeline.core.message import Box, Message
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.errors import Conflict, NotFound

_replace = msgspec.structs.replace


class Retract(msgspec.Struct, frozen=True):
    caller: Caller
    message_id: str
    reason: str | None

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.messages.add(self.message_id)
        needs.receipts_of.add(self.message_id)

    def decide(self, picture: Picture) -> None:
        policy.admit(picture, self.caller)
        policy.require_writer(self.caller)
        message = picture.messages.get(self.message_id)
        if message is None or (message.sender != self.caller.handle and not self.caller.is_human):
            raise NotFound("MESSAGE_NOT_FOUND", f"{self.caller.handle} has sent no message {self.message_id}.")
        if message.retracted_at is not None:
            return
        readers = _readers(picture, message)
        if readers:
            raise Conflict("ALREADY_READ", f"{', '.join(readers)} has read it.", readers=readers)
        lapse(picture, _replace(message, retracted_at=picture.now), "retracted")
        stream = THREAD_STREAM + message.thread_id
        data = {"reason": self.reason} if self.reason else {}
        picture.append("message.retracted", stream, message.seq, self.caller.handle, message.message_id, data)


def lapse(picture: Picture, message: Message, why: str) -> None:
    """The message no longer counts: nobody who has not read it yet is asked to."""
    picture.mark_message(message)
    for receipt in list(picture.receipts.values()):
        if (receipt.thread_id, receipt.seq) == (message.thread_id, message.seq) and receipt.box == Box.UNREAD:
            picture.put_receipt(_replace(receipt, box=int(Box.LAPSED), lapsed=why))


def _readers(picture: Picture, message: Message) -> list[str]:
    """Who has read it explicitly.  Seen is not enough: what was shown can still be taken back before it was read."""
    return [
        receipt.recipient
        for receipt in picture.receipts.values()
        if (receipt.thread_id, receipt.seq) == (message.thread_id, message.seq) and receipt.read_at is not None
    ]
