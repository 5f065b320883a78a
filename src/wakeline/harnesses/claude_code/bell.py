"""What a way into the session looks like to the companion, and what came of ringing there."""

from __future__ import annotations

from typing import Protocol

import msgspec

from wakeline.wire.seat import Rang
from wakeline.wire.sessions import WakeMode


class Verdict(msgspec.Struct, frozen=True):
    result: Rang
    reason: str | None = None
    detail: str | None = None


ACCEPTED = Verdict("accepted")


class Bell(Protocol):
    """`transport` and `wake_mode` are what the session is registered with."""

    @property
    def transport(self) -> str: ...

    @property
    def wake_mode(self) -> WakeMode: ...

    async def ring(self, text: str, native_id: str) -> Verdict: ...
