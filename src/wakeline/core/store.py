"""What the rest of Wakeline may ask of a store: submit a command, read a query, hear the doorbell, do chores.

`submit` is how everything is written.  It answers after the commit, so an answer means the rows are on disk.  `read`
never changes anything.  The doorbell only says "look": it may ring too often, and a lost ring costs latency, never a
row.  A store that wrote the rows itself may offer them instead of ringing.  Chores are the few writes that are no
principal's decision: first start, retention, expiry, search indexing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from wakeline.core.appended import Appended
from wakeline.core.log import Workspace
from wakeline.core.message import Message
from wakeline.core.picture import Needs, Picture
from wakeline.core.queries import Query
from wakeline.core.records import IssuerKey
from wakeline.core.subscription import Subscription

A_co = TypeVar("A_co", covariant=True)
A = TypeVar("A")
R = TypeVar("R")

Doorbell = Callable[[int], None]  # called with the workspace whose log grew; 0 means "look at all of them"
Hear = Callable[[Appended], bool]  # offered what was appended; True: taken, nobody need look
HearFollowed = Callable[[Sequence[Any]], None]
Wants = Callable[[], bool]  # are the rows themselves wanted, and not only where they are?


class Command(Protocol[A_co]):
    """One write.  `needs` says what to load; `decide` checks everything, then changes the picture and answers."""

    @property
    def workspace_id(self) -> int: ...

    def needs(self, needs: Needs) -> None: ...

    def decide(self, picture: Picture) -> A_co: ...


Making = Callable[[], Command[A_co]]


class Read(Protocol):
    """Read on the spot, also what the open transaction has just written."""

    def __call__(self, query: Query[R]) -> list[R]: ...


class Watchers(Protocol):
    """Who waits for mail to this handle: each subscription, and whether something of it is under way."""

    def __call__(self, handle: str) -> Sequence[tuple[Subscription, bool]] | None:
        """None if that would have to be read."""
        ...


class FollowUp(Protocol):
    """What may be decided in the transaction that grew a log, after it grew.  It travels to whoever writes."""

    def is_wanted(self, read: Read, workspace_id: int) -> bool:
        """Holds until a subscription changes."""
        ...

    def may_follow(self, read: Read, workspace_id: int, last_log_id: int) -> bool:
        """Is there nothing before this row that somebody else has still to do?"""
        ...

    def at_hand(self, picture: Picture, watchers: Watchers) -> list[Any] | None:
        """What concerns somebody among what will be written; None if memory is not enough to tell."""
        ...

    def find(self, read: Read, workspace_id: int, after: int, until: int) -> list[Any]:
        """The same, of what was written."""
        ...

    def command(self, workspace_id: int, found: list[Any], now: int) -> Command[list[Any]] | None:
        """It answers with what follows."""
        ...


class Search(msgspec.Struct, frozen=True):
    """Phrases that must all occur, in what the reader may see."""

    workspace_id: int
    phrases: tuple[str, ...]
    reader: str
    everything: bool
    thread_id: str | None
    sender: str | None
    limit: int


class Store(Protocol):
    def submit(self, command: Command[A] | Making[A]) -> Awaitable[A]:
        """What makes a command may be called later, when it is sent to whoever writes, right after those of others: the
        same steps in a row take half the time that they take between other work.  If it refuses, that is the answer.
        """
        ...

    async def read(self, query: Query[R]) -> list[R]: ...

    async def read_together(self, *queries: Query[Any]) -> list[list[Any]]:
        """Several reads of one moment: nothing is committed between them."""
        ...

    def on_commit(self, doorbell: Doorbell, hear: Hear | None = None, wants: Wants | None = None) -> None:
        """Ring after every commit that grew the log, unless `hear` was offered what was appended and took it."""
        ...

    def follow_up(self, follow_up: FollowUp, hear: HearFollowed, expect: HearFollowed) -> None:
        """Where one process writes, decide this together with what grew the log, and hear what followed; `expect` it
        before, perhaps: it counts only when it is heard.  A store with several writers need not: whoever follows the
        log finds everything.
        """
        ...

    async def now(self) -> int:
        """The clock that decides deadlines and expiry: the database's where several nodes share one."""
        ...

    # -- chores -------------------------------------------------------------------------------------------------------

    async def add_workspace(self, name: str, epoch: str, human: str) -> Workspace: ...

    async def add_first_issuer_key(self, key: IssuerKey) -> None: ...

    async def lapse_expired(self) -> int: ...

    async def prune(self, workspace_id: int, *, before: int | None, keep: int | None) -> int: ...

    async def forget_closed(self, workspace_id: int, *, closed_before: int) -> int: ...

    async def forget_sessions(self, workspace_id: int, *, ended_before: int) -> int: ...

    async def trim_dead_letters(self, workspace_id: int, sender: str, keep: int) -> None: ...

    async def forget_old_waits(self, before: int) -> None: ...

    async def forget_old_refusals(self, before: int) -> None: ...

    async def forget_wakes(self, before: int) -> int: ...

    async def index(self) -> int: ...

    async def search(self, query: Search) -> list[Message]: ...

    async def check(self) -> list[tuple[str, bool, str]]: ...

    async def close(self) -> None: ...
