"""Every read, as a value: the class names its `.sql` file, the fields are its parameters, `row` makes the result.

Lists that a caller pages through are bounded by `limit`, so a read costs what it returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from wakeline.core.doorbell import Head
from wakeline.core.log import LogEntry, Workspace
from wakeline.core.message import Message, Receipt
from wakeline.core.principal import Principal
from wakeline.core.records import Block, DeadLetter, Grant, IssuerKey, Refusal, Token
from wakeline.core.session import Session
from wakeline.core.thread import Member, Thread

R = TypeVar("R")

_MESSAGE_WIDTH = len(Message.__struct_fields__)
_LOG_WIDTH = len(LogEntry.__struct_fields__)
_WORKSPACE_WIDTH = len(Workspace.__struct_fields__)
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


class Control(msgspec.Struct, frozen=True):
    """A workspace, and a row of its log at that moment."""

    workspace: Workspace
    log: LogEntry | None


def _control(*columns: Any) -> Control:
    log = columns[_WORKSPACE_WIDTH:]
    return Control(Workspace(*columns[:_WORKSPACE_WIDTH]), LogEntry(*log) if log[0] is not None else None)


def _pair(number: int, word: str) -> tuple[int, str]:
    return number, word


def _count(handle: str, number: int) -> tuple[str, int]:
    return handle, number


class SeenThread(msgspec.Struct, frozen=True):
    """A thread and what it is to the reader: its own, or one in which it had a last glimpse of this seq and time."""

    thread: Thread
    is_member: bool
    glimpsed_seq: int | None
    glimpsed_at: int | None


def _seen_thread(*columns: Any) -> SeenThread:
    return SeenThread(Thread(*columns[:_THREAD_WIDTH]), bool(columns[-3]), *columns[-2:])


class Figures(msgspec.Struct, frozen=True):
    agents: int
    threads: int
    messages: int
    open_dead_letters: int


# -- messages ---------------------------------------------------------------------------------------------------------


class MessageFor(Query[Delivered], frozen=True):
    """A message, if the reader may read it.  `everything`, here and below: the reader reads everything."""

    workspace_id: int
    message_id: str
    reader: str
    everything: bool
    row = _delivered


class ReceiptsOf(Query[Receipt], frozen=True):
    workspace_id: int
    log_id: int
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


class UnreadHeads(Query[Head], frozen=True):
    """The first unread messages, without their bodies: a heartbeat asks for them each time."""

    workspace_id: int
    recipient: str
    now: int
    limit: int
    row = Head


class UnreadCounts(Query[tuple[str, int]], frozen=True):
    """How much everybody has not read: (handle, number)."""

    workspace_id: int
    now: int
    row = _count


class UnreadAfter(Query[Delivered], frozen=True):
    """Unread mail that came after a log row, oldest first."""

    workspace_id: int
    recipient: str
    now: int
    after: int
    limit: int
    row = _delivered


class FirstReply(Query[Delivered], frozen=True):
    """The first message of somebody else that answers this one and that the reader may read."""

    workspace_id: int
    message_id: str
    reader: str
    everything: bool
    row = _delivered


class DueAnswers(Query[tuple[int, str]], frozen=True):
    """Messages of all workspaces that nobody has answered by their deadline: (workspace_id, message_id)."""

    now: int
    limit: int
    row = _pair


class NewestMail(Query[str], frozen=True):
    """The id of the last message up to a seq that somebody else sent and the reader received."""

    thread_id: str
    until: int
    reader: str
    row = str


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


class ThreadGlimpses(ThreadPage, frozen=True):
    """The same of a role's thread for somebody who is not in it: what they sent, and what was sent to them."""

    everything: bool = False
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
    everything: bool = False
    row = _entry


class HostLog(Query[Entry], frozen=True):
    """Rows in (after, until] for the bridge of a host."""

    workspace_id: int
    after: int
    until: int
    host: str
    limit: int
    row = _entry


class LogMembers(Query[tuple[int, str]], frozen=True):
    """Who may see each thread's rows of a stretch of the log: (log_id, handle), each once."""

    workspace_id: int
    after: int
    until: int
    row = _pair


# -- sessions ---------------------------------------------------------------------------------------------------------


class SessionById(Query[Session], frozen=True):
    """In whatever workspace it is: ids are unique across them."""

    session_id: str
    row = Session


class SessionByNative(Query[Session], frozen=True):
    """The last one with this id of its harness's own, ended or not."""

    workspace_id: int
    handle: str
    harness: str
    native_id: str  # empty: none
    host: str  # empty: none
    row = Session


class SessionList(Query[Session], frozen=True):
    workspace_id: int
    handle: str  # empty: all
    with_ended: int
    since: int  # heard of since then
    limit: int
    row = Session


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


class ControlAfter(Query[Control], frozen=True):
    """Rows that change who may do what: the only ones a node must hear of when nobody listens.  Without any, one row
    that has only the workspace.
    """

    workspace_id: int
    after: int
    limit: int
    row = _control


class DeadLetterFor(Query[DeadLetter], frozen=True):
    workspace_id: int
    dead_letter_id: str
    row = DeadLetter
