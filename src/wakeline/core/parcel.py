"""What an adapter is given to bring, and what it can say came of it.

An adapter turns every failure into one of these results and raises only for bugs.  It does not sleep, retry or touch
the store: whether there is another attempt is decided by who gave it the parcel.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol, runtime_checkable

import msgspec

from wakeline.core.session import Session

DETAIL_BYTES = 2_048
MARK_PREFIX = "wl-"


class Parcel(msgspec.Struct, frozen=True):
    delivery_id: str
    event_id: str  # the same on every attempt, and so are the bytes of the body
    subscription_id: str
    attempt: int
    target: str
    url: str | None
    body: bytes
    keys: tuple[bytes, ...] = ()  # decoded, newest first; all that are live sign
    timeout: timedelta = timedelta(seconds=10)
    workspace_id: int = 0
    handle: str = ""  # whose connections it is for, where the route is a connection
    callback: bool = False  # an occurrence of MCP Events, with the headers of that draft
    # For what rings inside a session:
    text: str = ""  # the doorbell, ready to be put before the model; it holds the mark
    mark: str = ""
    session: Session | None = None


class Accepted(msgspec.Struct, frozen=True):
    """The receiver took it.  That is the ladder's `triggered` and no more."""

    status: int | None
    detail: str


class Refused(msgspec.Struct, frozen=True):
    """The receiver said no and would say it again: no retry, and the route is degraded."""

    status: int | None
    reason: str
    detail: str


class Failed(msgspec.Struct, frozen=True):
    """It did not arrive, or nothing useful came back."""

    reason: str
    detail: str
    retryable: bool = True
    pause: timedelta | None = None  # what the receiver asks for before the next attempt


class Uncertain(msgspec.Struct, frozen=True):
    """Nobody can tell whether it arrived, and a second ring could be a second effect: never retried blindly."""

    reason: str
    detail: str


class Absent(msgspec.Struct, frozen=True):
    """No connection to this node would tell the receiver: nothing was sent, and nothing is wrong with the route."""


Result = Accepted | Refused | Failed | Uncertain | Absent


class Adapter(Protocol):
    async def deliver(self, parcel: Parcel) -> Result: ...


@runtime_checkable
class Prepares(Protocol):
    def prepare(self, parcel: Parcel) -> None:
        """It will probably have to be delivered in a moment.  Nothing that a receiver could notice as an event."""

    def release(self, delivery_id: str) -> None:
        """It is stored and will be delivered in this moment; who is ready may begin."""


def mark_of(event_id: str) -> str:
    """The word in a doorbell's text: a harness that shows it in a prompt has the doorbell in its model's context."""
    return MARK_PREFIX + event_id


def bounded(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Evidence as it may be kept: without these secrets, on one line, within its bytes."""
    for secret in secrets:
        text = text.replace(secret, "***")
    line = "".join(sign if sign.isprintable() else " " for sign in text)
    return line.encode("utf-8", "replace")[:DETAIL_BYTES].decode("utf-8", "ignore")
