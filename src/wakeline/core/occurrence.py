"""One message as the draft MCP Events tells of it: the same event, with the same id, as `events/poll` would show."""

from __future__ import annotations

from typing import Any

import msgspec

from wakeline.core.instant import to_datetime
from wakeline.core.log import Position
from wakeline.core.wake import Wake

NAME = "inbox.mail"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def encode_occurrence(wake: Wake, epoch: str, confirmed: int) -> str:
    """`confirmed`: nothing up to this row of the log is still to come, so a client may resume after it."""
    said, at = _decode(wake.payload), to_datetime(wake.occurred_at)
    data = {
        "message_id": wake.message_id,
        "thread_id": wake.thread_id,
        "seq": wake.seq,
        "log_id": wake.log_id,
        "sender": said["from"],
        "subject": said["subject"] or None,
        "priority": said["priority"],
        "created_at": at,
    }
    body = {
        "eventId": wake.message_id,
        "name": NAME,
        "timestamp": at,
        "data": {name: value for name, value in data.items() if value is not None},
        "cursor": str(Position(epoch, confirmed)),
    }
    return _encode(body).decode()
