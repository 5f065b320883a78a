"""Every read, as a value: the class names its `.sql` file, the fields are its parameters, `row` makes the result.

Lists that a caller pages through are bounded by `limit`, so a read costs what it returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from wakeline.core.log import LogEntry, Workspace
from wakeline.core.message import Message, Receipt
from wakeline.core.principal import Principal
from wakeline.core.records import Block, DeadLetter, Grant, IssuerKey, Refusal, Token
from wakeline.core.thread import Member, Thread

R = TypeVar("R")

_MESSAGE_WIDTH = len(Message.__struct_fields__)
_LOG_WIDTH = len(LogEntry.__struct_fields__)
_THREAD_WIDTH = len(Thread.__struct_fields__)


class Query(msgspec.Struct, Generic[R], frozen=True):
    row: ClassVar[Callable[..., Any]]

    @classmethod
    @cache
    def statement(cls) -> str:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


class Delivered(msgspec.Struct, frozen=True):
    """A message and, if the reader was a recipient, the reader's receipt."""

    message: Message
    receipt: Receipt | None


def _delivered(*columns: Any) -> Delivered:
    receipt = columns[_MESSAGE_WIDTH:]
    return Delivered(Message(*columns[:_MESSAGE_WIDTH]), Receipt(*receipt) if receipt[0] is not None else None)


class Entry(msgspec.Struct, frozen=True):
    """A log row and, if it is about a message, that message."""

    log: LogEntry
    message: Message | None


def _entry(*columns: Any) -> Entry:
    message = columns[_LOG_WIDTH:]
    return Entry(LogEntry(*columns[:_LOG_WIDTH]), Message(*message) if message[0] is not None else None)


def _pair(log_id: int, handle: str) -> tuple[int, str]:
    return log_id, handle


class SeenThread(msgspec.Struct, frozen=True):
    thread: Thread
    is_member: bool


def _seen_thread(*columns: Any) -> SeenThread:
    return SeenThread(Thread(*columns[:_THREAD_WIDTH]), bool(columns[_THREAD_WIDTH]))


class Figures(msgspec.Struct, frozen=True):
    agents: int
    threads: int
    messages: int
    open_dead_letters: int


# -- messages ---------------------------------------------------------------------------------------------------------


class MessageFor(Query[Delivered], frozen=True):
    workspace_id: int
    message_id: str
    reader: str
    row = _delivered


class ReceiptsOf(Query[Receipt], frozen=True):
    thread_id: str
    seq: int
    row = Receipt


class InboxPage(Query[Delivered], frozen=True):
    workspace_id: int
    recipient: str
    now: int
    first_box: int
    last_box: int
    after_box: int
    after_rank: int
    after_log_id: int
    limit: int
    row = _delivered


class UnreadCount(Query[int], frozen=True):
    workspace_id: int
    recipient: str
    now: int
    row = int


class UnreadAfter(Query[Delivered], frozen=True):
    """Unread mail that came after a log row, oldest first."""

    workspace_id: int
    recipient: str
    now: int
    after: int
    limit: int
    row = _delivered


class FirstReply(Query[Delivered], frozen=True):
    """The first message that answers this one and that the asker may see."""

    workspace_id: int
    message_id: str
    asker: str
    row = _delivered


# -- threads ----------------------------------------------------------------------------------------------------------


class ThreadFor(Query[SeenThread], frozen=True):
    workspace_id: int
    thread_id: str
    reader: str
    row = _seen_thread


class MembersOf(Query[Member], frozen=True):
    thread_id: str
    row = Member


class ThreadPage(Query[Delivered], frozen=True):
    thread_id: str
    since_seq: int
    reader: str
    limit: int
    row = _delivered


class ThreadList(Query[Thread], frozen=True):
    workspace_id: int
    reader: str
    status: str
    type: str
    before: str
    limit: int
    row = Thread


class ThreadListAll(ThreadList, frozen=True):
    row = Thread


# -- log --------------------------------------------------------------------------------------------------------------


class LogAfter(Query[Entry], frozen=True):
    workspace_id: int
    after: int
    limit: int
    row = _entry


class LogVisible(Query[Entry], frozen=True):
    """Rows in (after, until] that the reader may see."""

    workspace_id: int
    after: int
    until: int
    reader: str
    limit: int
    row = _entry


class LogMembers(Query[tuple[int, str]], frozen=True):
    """Who may see each thread's rows of a stretch of the log: (log_id, handle)."""

    workspace_id: int
    after: int
    until: int
    row = _pair


# -- identity and policy ----------------------------------------------------------------------------------------------


class AllWorkspaces(Query[Workspace], frozen=True):
    row = Workspace


class WorkspaceById(Query[Workspace], frozen=True):
    workspace_id: int
    row = Workspace


class PrincipalList(Query[Principal], frozen=True):
    workspace_id: int
    row = Principal


class PrincipalFor(Query[Principal], frozen=True):
    workspace_id: int
    handle: str
    row = Principal


class TokenFor(Query[Token], frozen=True):
    jti: str
    row = Token


class TokenList(Query[Token], frozen=True):
    workspace_id: int
    handle: str  # empty: all
    row = Token


class GrantList(Query[Grant], frozen=True):
    workspace_id: int
    party: str  # empty: all
    row = Grant


class BlockList(Query[Block], frozen=True):
    workspace_id: int
    party: str
    row = Block


class RefusalList(Query[Refusal], frozen=True):
    workspace_id: int
    limit: int
    row = Refusal


class IssuerKeys(Query[IssuerKey], frozen=True):
    row = IssuerKey


# -- operations -------------------------------------------------------------------------------------------------------


class DeadLetterList(Query[DeadLetter], frozen=True):
    workspace_id: int
    sender: str
    only_open: int
    limit: int
    row = DeadLetter


class StatusFigures(Query[Figures], frozen=True):
    workspace_id: int
    row = Figures


class ConsumerCursor(Query[int], frozen=True):
    workspace_id: int
    name: str
    row = int


class ControlAfter(Query[LogEntry], frozen=True):
    """Rows that change who may do what: the only ones a node must hear of when nobody listens."""

    workspace_id: int
    after: int
    until: int
    limit: int
    row = LogEntry


class DeadLetterFor(Query[DeadLetter], frozen=True):
    workspace_id: int
    dead_letter_id: str
    row = DeadLetter
