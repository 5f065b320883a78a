"""What a lane knows without asking: the facts of its last batches, for as long as nobody else has written.

Whatever changes a workspace moves its `version` on: batches of any node, and chores.  The facts of our last batch and
what it wrote are therefore all true while the version is still the one that it left behind, and the guard of the next
write looks at exactly that.  So a batch that asks for nothing new is decided from memory and written in one round trip.
If the guard finds another version, nothing was written: everything is forgotten, and the batch is loaded as usual.

A batch that would write nothing is not decided from memory, because then no guard would look.  And the server's clock,
by which decisions are made, is read again with every load: memory older than a moment is not used.
"""

from __future__ import annotations

import time

from wakeline.core.picture import Facts, Needs, Picture
from wakeline.store.known import Known

FRESH_SECONDS = 1.0
MOST = 20_000  # rows that are learned before we begin again: every workspace has such a memory, also while it rests
MICROSECONDS = 1_000_000


class Memory:
    def __init__(self) -> None:
        self._known: Known | None = None
        self._now = 0  # by the server's clock, when facts were last loaded
        self._loaded = 0.0  # the same moment by ours

    def recall(self, needs: Needs) -> Facts | None:
        """What was asked for; None if something of it must be loaded."""
        age = time.monotonic() - self._loaded
        if self._known is None or age > FRESH_SECONDS or self._known.lacks(needs) is not None:
            return None
        return self._known.facts(needs, self._now + int(age * MICROSECONDS))

    def loaded(self, needs: Needs, facts: Facts) -> None:
        """This was asked for, and these are all the facts about it."""
        self._now, self._loaded = facts.now, time.monotonic()
        if self._known is None or not self._known.is_of(facts.workspace) or self._known.learned > MOST:
            self._known = Known(facts.workspace)
        self._known.read(needs, facts)

    def wrote(self, picture: Picture) -> None:
        """This batch was committed, and what it was decided over is what we know."""
        if self._known is not None:
            self._known.wrote(picture)

    def forget(self) -> None:
        self._known = None
