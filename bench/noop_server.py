"""A Wakeline whose posts are answered at once and go nowhere: what everything around the store costs.

Everything else is the real server: its listeners, its application, authentication with real tokens, validation of the
request, encoding of the answer, metrics.
"""

from __future__ import annotations

import os
import sys

from wakeline import wire
from wakeline.core.principal import Caller
from wakeline.runtime import bootstrap, clock, parts, settings
from wakeline.service.messages import Messages


class NoopMessages(Messages):
    async def post(self, caller: Caller, request: wire.PostMessage) -> wire.Posted:
        self.validate(caller, request)
        return _ANSWER


_ANSWER = wire.Posted(
    message_id=clock.new_id(),
    thread_id=clock.new_id(),
    seq=12_345,
    log_id=123_456,
    created_at=clock.now_datetime(),
    epoch="da2e8bb9",
)


def main() -> int:
    parts.Messages = NoopMessages  # type: ignore[attr-defined]  # the one part that differs
    return bootstrap.serve(settings.load({}, os.environ)[0])


if __name__ == "__main__":
    sys.exit(main())
