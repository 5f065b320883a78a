"""Put a cursor back: for recovery only, by nobody's command, always with a reason that the log keeps."""

from __future__ import annotations

import msgspec

from wakeline.core.cursor import Cursor, reset
from wakeline.core.log import WORKSPACE_STREAM
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import SYSTEM
from wakeline.errors import InvalidArgument, NotFound


class ResetCursor(msgspec.Struct, frozen=True):
    workspace_id: int
    consumer_id: str
    stream_name: str
    subject_id: str
    sequence: int
    reason: str

    def needs(self, needs: Needs) -> None:
        needs.cursors.add((self.consumer_id, self.stream_name, self.subject_id))

    def decide(self, picture: Picture) -> Cursor:
        if not self.reason.strip():
            raise InvalidArgument("INVALID_ARGUMENT", "A cursor is not put back without a reason.", "Say why.")
        before = picture.cursors.get((self.consumer_id, self.stream_name, self.subject_id))
        if before is None or not 0 <= self.sequence <= before.last_sequence:
            raise NotFound("CURSOR_NOT_FOUND", f"{self.consumer_id} has no cursor at {self.sequence} or later.")
        after = reset(before, self.sequence, picture.now)
        picture.put_cursor(after)
        data = {"from": before.last_sequence, "to": self.sequence, "reason": self.reason}
        picture.append("cursor.reset", WORKSPACE_STREAM, 0, SYSTEM, self.consumer_id, data)
        return after
