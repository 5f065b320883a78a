"""What an HTTP operation is: a row of the table, and the request that it is called with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from wakeline import wire
from wakeline.service import Caller, Services


class Call(msgspec.Struct, frozen=True):
    """One request, parsed and authenticated."""

    services: Services
    caller: Caller
    path: dict[str, str]
    query: Any
    body: Any


class Operation(msgspec.Struct, frozen=True):
    method: str
    path: str
    name: str
    summary: str
    handle: Callable[[Call], Awaitable[Any]]
    answer: type[wire.Answer]
    body: type[wire.Request] | None = None
    query: type[wire.Query] = wire.Query
    status: int = 200
    bridge: bool = False  # for the token of a bridge, which opens nothing else
    once: bool = False  # what exists already is answered with 200 and the status "existing"

    def status_of(self, answer: Any) -> int:
        return 200 if self.once and answer.status == "existing" else self.status
