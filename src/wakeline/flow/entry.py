"""Write one entry into a thread: the message row, its log row and its receipts.  All that speaks goes through here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from wakeline.core.log import THREAD_STREAM
from wakeline.core.message import RANK, SCHEMA_VERSION, Box, Message, Receipt
from wakeline.core.picture import Picture
from wakeline.core.thread import Thread
from wakeline.flow.belong import note_guests

_encode = msgspec.json.Encoder().encode
_replace = msgspec.structs.replace


def write(picture: Picture, thread: Thread, message: Message, recipients: Sequence[str]) -> Message:
    """Append the message to the thread as it is given; seq, log_id and time are set here, nowhere else."""
    seq = thread.last_seq + 1
    log_id = picture.append("message.posted", THREAD_STREAM + thread.thread_id, seq, message.sender, message.message_id)
    message = _replace(message, thread_id=thread.thread_id, seq=seq, log_id=log_id, created_at=picture.now)
    picture.add_message(message)
    picture.move_thread_tail(_replace(thread, last_seq=seq, updated_at=picture.now))
    rank = RANK[message.priority]
    for handle in recipients:
        picture.put_receipt(
            Receipt(handle, thread.workspace_id, log_id, thread.thread_id, seq, rank, message.expires_at)
        )
    if thread.role is not None:
        note_guests(picture, thread, seq, {message.sender, *recipients})
    return message


def write_system(
    picture: Picture,
    thread: Thread,
    message_id: str,
    sender: str,
    body: str,
    recipients: list[str],
    metadata: dict[str, Any],
    chain: str | None = None,
) -> Message:
    """An entry that reports what happened to the thread itself.  It is read, it never wakes."""
    message = Message(
        message_id=message_id,
        workspace_id=thread.workspace_id,
        thread_id=thread.thread_id,
        seq=0,
        log_id=0,
        sender=sender,
        session_id=None,
        kind="system",
        subject=None,
        body=body,
        recipients=_encode(recipients).decode(),
        priority="normal",
        wake_policy="silent",
        tags="[]",
        in_reply_to=None,
        idempotency_key=None,
        expires_at=None,
        supersedes=None,
        metadata=_encode(metadata).decode(),
        schema_version=SCHEMA_VERSION,
        created_at=0,
        chain=chain,
    )
    return write(picture, picture.threads.get(thread.thread_id, thread), message, recipients)


def lapse(picture: Picture, message: Message, why: str) -> None:
    """The message no longer counts: nobody who has not read it yet is asked to."""
    picture.mark_message(message)
    for receipt in list(picture.receipts.values()):
        if (receipt.thread_id, receipt.seq) == (message.thread_id, message.seq) and receipt.box == Box.UNREAD:
            picture.put_receipt(_replace(receipt, box=int(Box.LAPSED), lapsed=why))
