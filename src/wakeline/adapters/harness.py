"""What an adapter for a harness looks like to the bridge.

Every adapter rings; an ability that only some have is a protocol of its own.  An adapter turns failures into results,
raises only for bugs, and never sleeps to try again nor touches the store: the bridge and the server do that.

The bridge gives a parcel to the adapter whose `harness` and `transport` are those of the parcel's session.  An adapter
for sessions of any harness that name its transport, such as keystrokes into a terminal, calls its harness `ANY`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from wakeline.core.observation import Observation
from wakeline.core.parcel import Parcel, Result
from wakeline.core.session import Session, WakeMode

ANY = "*"

Sessions = Callable[[], Sequence[Session]]  # those of this host that have not ended, as they are known now
Report = Callable[[Observation], Awaitable[None]]


class HarnessAdapter(Protocol):
    """`levels` says what it can do (`D4` → `pass`); routing goes only by what was proven for an installed version."""

    @property
    def harness(self) -> str: ...

    @property
    def transport(self) -> str: ...

    @property
    def wake_mode(self) -> WakeMode: ...

    @property
    def levels(self) -> Mapping[str, str]: ...

    @property
    def capabilities(self) -> tuple[str, ...]: ...

    async def deliver(self, parcel: Parcel) -> Result:
        """Ring inside `parcel.session`.  `Accepted` means that the harness took it, which is `triggered` and no more.

        Within `parcel.timeout`; what may have arrived but was not confirmed in that time is `Uncertain`.
        """
        ...


@runtime_checkable
class Withdraws(Protocol):
    async def withdraw(self, session: Session, mark: str) -> bool:
        """Take a doorbell that still waits in the harness's queue out of it; whether it was there.

        Of a harness that cannot be asked just now, the answer is no: then the doorbell comes, and finds nothing unread.
        """
        ...


@runtime_checkable
class Observes(Protocol):
    async def watch(self, sessions: Sessions, report: Report) -> None:
        """Tell of presence, injection, completion and ends, until cancelled.  Only of what `sessions` names."""
