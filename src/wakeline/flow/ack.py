"""Stage 5, ack: what recipients did with their mail.  Seen is automatic, read is explicit, both only move forward."""

from __future__ import annotations

import msgspec

from wakeline.core import policy
from wakeline.core.log import PRINCIPAL_STREAM, THREAD_STREAM
from wakeline.core.message import Box, Message, Receipt
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.errors import Conflict, NotFound
from wakeline.flow import trace

_replace = msgspec.structs.replace


def _own_receipts(picture: Picture, caller: Caller, message_ids: tuple[str, ...]) -> list[tuple[Message, Receipt]]:
    """The caller's receipts for these messages; one that is not the caller's is as good as not there."""
    found = []
    for message_id in message_ids:
        message = picture.messages.get(message_id)
        receipt = picture.receipts.get((message.thread_id, message.seq, caller.handle)) if message else None
        if message is None or receipt is None:
            raise NotFound(
                "MESSAGE_NOT_FOUND",
                f"{caller.handle} has received no message {message_id}; nothing was changed.",
                message_id=message_id,
            )
        found.append((message, receipt))
    return found


class _OwnMail(msgspec.Struct, frozen=True):
    caller: Caller
    message_ids: tuple[str, ...]

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.messages.update(self.message_ids)
        needs.receipts.update((message_id, self.caller.handle) for message_id in self.message_ids)


class AckMessages(_OwnMail, frozen=True):
    """Mark messages as read.  Answers how many were not read before."""

    def decide(self, picture: Picture) -> int:
        policy.admit(picture, self.caller)
        fresh: dict[str, Message] = {}
        for message, receipt in _own_receipts(picture, self.caller, self.message_ids):
            if receipt.read_at is None and message.message_id not in fresh:
                picture.put_receipt(_read(receipt, picture.now))
                fresh[message.message_id] = message
        if fresh:
            _record(picture, self.caller, "inbox.acked", list(fresh))
            trace.take_up(picture, self.caller, fresh.values())
        return len(fresh)


class ArchiveMessages(_OwnMail, frozen=True):
    """Put messages away.  Archived mail is read mail."""

    def decide(self, picture: Picture) -> int:
        policy.admit(picture, self.caller)
        fresh = []
        for message, receipt in _own_receipts(picture, self.caller, self.message_ids):
            if receipt.archived_at is None and message.message_id not in fresh:
                read = _read(receipt, picture.now)
                picture.put_receipt(_replace(read, box=int(Box.ARCHIVED), archived_at=picture.now))
                fresh.append(message.message_id)
        if fresh:
            _record(picture, self.caller, "inbox.archived", fresh)
        return len(fresh)


class MarkSeen(_OwnMail, frozen=True):
    """The recipient was shown these messages.  No log row: reading must not make more to read."""

    def decide(self, picture: Picture) -> int:
        count = 0
        for message_id in self.message_ids:
            message = picture.messages.get(message_id)
            receipt = picture.receipts.get((message.thread_id, message.seq, self.caller.handle)) if message else None
            if receipt is not None and receipt.seen_at is None:
                picture.put_receipt(_replace(receipt, seen_at=picture.now))
                count += 1
        return count


class AckThread(msgspec.Struct, frozen=True):
    """Mark a thread as read up to a seq.  Answers the position that holds now, which never goes back."""

    caller: Caller
    thread_id: str
    last_read_seq: int
    newest: str | None = None  # the last mail up to there: what the caller takes up, if it was not read before

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.threads.add(self.thread_id)
        needs.guests.add((self.thread_id, self.caller.handle))
        needs.unread_until.add((self.thread_id, self.caller.handle, self.last_read_seq))
        if self.newest is not None:
            needs.messages.add(self.newest)

    def decide(self, picture: Picture) -> int:
        handle = self.caller.handle
        policy.admit(picture, self.caller)
        thread = policy.visible_thread(picture, self.thread_id, self.caller)
        inside = picture.is_member(self.thread_id, handle)
        # Where a role's thread ends is no business of who is not in it.
        if (inside or self.caller.reads_everything) and self.last_read_seq > thread.last_seq:
            raise Conflict("NOT_WRITTEN_YET", f"The thread ends at seq {thread.last_seq}.", last_seq=thread.last_seq)
        fresh = self._mark(picture)
        if not inside:  # who may look without being a member has their mail to read and no position to keep
            if fresh:
                self._record(picture)
            return 0
        member = picture.members[self.thread_id][handle]
        if self.last_read_seq <= member.last_read_seq:
            return member.last_read_seq
        picture.put_member(_replace(member, last_read_seq=self.last_read_seq))
        self._record(picture)
        return self.last_read_seq

    def _mark(self, picture: Picture) -> int:
        """Read what the caller has received up to there.  Answers how much of it was not read before."""
        fresh = [
            receipt
            for receipt in picture.receipts.values()
            if (receipt.thread_id, receipt.recipient) == (self.thread_id, self.caller.handle)
            and receipt.seq <= self.last_read_seq
            and receipt.read_at is None
        ]
        for receipt in fresh:
            picture.put_receipt(_read(receipt, picture.now))
            self._take_up(picture, receipt.seq)
        return len(fresh)

    def _take_up(self, picture: Picture, seq: int) -> None:
        message = picture.messages.get(self.newest or "")
        if message is not None and (message.thread_id, message.seq) == (self.thread_id, seq):
            trace.take_up(picture, self.caller, [message])

    def _record(self, picture: Picture) -> None:
        stream, data = THREAD_STREAM + self.thread_id, {"last_read_seq": self.last_read_seq}
        picture.append("thread.acked", stream, self.last_read_seq, self.caller.handle, None, data)


def _read(receipt: Receipt, now: int) -> Receipt:
    return _replace(
        receipt,
        box=int(max(receipt.box, Box.READ)) if receipt.box != Box.LAPSED else int(Box.READ),
        seen_at=receipt.seen_at or now,
        read_at=receipt.read_at or now,
    )


def _record(picture: Picture, caller: Caller, kind: str, message_ids: list[str]) -> None:
    picture.append(kind, PRINCIPAL_STREAM + caller.handle, 0, caller.handle, None, {"message_ids": message_ids})
