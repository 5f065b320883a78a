"""What a message came from: the first message of its chain, and who carried it from thread to thread.

A hop is a message that goes into another thread than the one it came from.  A dialogue inside one thread is not a hop:
the turns of a thread are counted by `loop`.  So A → B → C → A through three threads grows the chain by three, however
many agents take part, and also when each hop goes to somebody new.
"""

from __future__ import annotations

import msgspec

from wakeline.core.instant import SECOND
from wakeline.core.message import Message
from wakeline.core.records import Cause

MOST_HOPS = 64  # kept; a limit is always smaller


class Chain(msgspec.Struct, frozen=True, gc=False):
    root: str  # the id of the message that had no cause
    hops: tuple[str, ...]  # its sender, then everybody who took it into another thread

    @property
    def length(self) -> int:
        """How often it went into another thread."""
        return len(self.hops) - 1

    def __str__(self) -> str:
        return " → ".join(self.hops)


parse = msgspec.json.Decoder(Chain).decode
_encode = msgspec.json.Encoder().encode


def text(chain: Chain) -> str:
    """As it is stored."""
    return _encode(chain).decode()


def of(message: Message) -> str:
    """The chain that goes on from this message, which may be its beginning."""
    return message.chain or text(Chain(message.message_id, (message.sender,)))


def carried(chain: str, sender: str, *, elsewhere: bool) -> tuple[str, int]:
    """The chain of what `sender` says because of a message with this one, and its length if that has just grown."""
    if not elsewhere:
        return chain, 0
    before = parse(chain)
    grown = Chain(before.root, (*before.hops, sender)[-MOST_HOPS:])
    return text(grown), grown.length


def is_recent(cause: Cause, now: int, minutes: int) -> bool:
    """Is what was taken up then still what the next message comes from?  A step of the clock counts as time."""
    return abs(now - cause.taken_at) < minutes * 60 * SECOND
