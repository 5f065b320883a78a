"""The in-memory picture over which one batch is decided, and the rows that its decisions change.

A batch goes through three steps on every database: load the facts that its commands need, decide each command in
order over this picture, write what changed.  Each decision sees what the ones before it did, so two posts with one
idempotency key in one batch behave exactly as in two.  A command first checks everything and only then puts rows: a
refusal leaves no trace.  Every row is put whole and at most once per key, so the order of writing does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from wakeline.core.activation import Activation, Dormancy, Mandate
from wakeline.core.bridge import Bridge
from wakeline.core.cursor import Cursor
from wakeline.core.delivery import Delivery, DeliveryStep
from wakeline.core.level import Proof
from wakeline.core.log import LogEntry, Workspace
from wakeline.core.message import Message, Receipt
from wakeline.core.principal import Principal
from wakeline.core.records import (
    Block,
    Bucket,
    Cause,
    Consumer,
    DeadLetter,
    Grant,
    IdempotencyRecord,
    Refusal,
    Token,
    Wait,
)
from wakeline.core.session import Session
from wakeline.core.subscription import Subscription, SubscriptionKey
from wakeline.core.thread import Glimpse, Member, Thread
from wakeline.core.wake import Wake

R = TypeVar("R")

_encode = msgspec.json.Encoder().encode


class Needs(msgspec.Struct):
    """What the commands of one batch must know.  The store loads these keys and what hangs on them."""

    handles: set[str] = msgspec.field(default_factory=set)
    roles: set[str] = msgspec.field(default_factory=set)
    everyone: bool = False
    threads: set[str] = msgspec.field(default_factory=set)
    audience_keys: set[str] = msgspec.field(default_factory=set)
    messages: set[str] = msgspec.field(default_factory=set)  # brings their threads
    receipts_of: set[str] = msgspec.field(default_factory=set)  # message ids: brings every receipt
    receipts: set[tuple[str, str]] = msgspec.field(default_factory=set)  # (message id, recipient)
    unread_until: set[tuple[str, str, int]] = msgspec.field(default_factory=set)  # (thread, recipient, seq)
    workflows_of: set[str] = msgspec.field(default_factory=set)  # handles: brings the active workflows they work in
    # (handle, role): brings the threads of this role and of those that the handle holds
    role_threads_of: set[tuple[str, str]] = msgspec.field(default_factory=set)
    guests: set[tuple[str, str]] = msgspec.field(default_factory=set)  # (thread, handle): brings those with a glimpse
    idempotency: set[tuple[str, str, str]] = msgspec.field(default_factory=set)  # (sender, operation, key)
    senders: set[str] = msgspec.field(default_factory=set)  # brings buckets, grants to, blocks against, causes
    tokens: set[str] = msgspec.field(default_factory=set)
    dead_letters: set[str] = msgspec.field(default_factory=set)
    sessions: set[str] = msgspec.field(default_factory=set)
    sessions_of: set[str] = msgspec.field(default_factory=set)  # handles: brings those that have not ended
    subscriptions: set[str] = msgspec.field(default_factory=set)  # brings their open deliveries
    subscriptions_of: set[str] = msgspec.field(default_factory=set)  # handles: brings those that are not retired
    plans: set[str] = msgspec.field(default_factory=set)  # subscription ids: brings all that planning must know
    # Those of them that ring inside sessions.  A store may bring what seats need with the plans in any case.
    seats: set[str] = msgspec.field(default_factory=set)
    deliveries: set[str] = msgspec.field(default_factory=set)  # brings their wakes and subscriptions
    cursors: set[tuple[str, str, str]] = msgspec.field(default_factory=set)  # (consumer, stream, subject)
    consumers: set[str] = msgspec.field(default_factory=set)
    waits: bool = False
    bridges: set[str] = msgspec.field(default_factory=set)  # hosts
    bridges_of: set[str] = msgspec.field(default_factory=set)  # handles: brings those of the hosts of their sessions
    wakes: set[tuple[str, int]] = msgspec.field(default_factory=set)  # (subscription, log_id)
    proofs: set[str] = msgspec.field(default_factory=set)  # routes
    activations: set[str] = msgspec.field(default_factory=set)
    # handles: brings what they may, how far they are, and every open activation of the workspace
    mandates: set[str] = msgspec.field(default_factory=set)


class Facts(msgspec.Struct):
    now: int
    workspace: Workspace
    principals: list[Principal] = []
    role_holders: list[tuple[str, str]] = []
    threads: list[Thread] = []
    members: list[Member] = []
    messages: list[Message] = []  # without their bodies
    receipts: list[Receipt] = []
    idempotency: list[IdempotencyRecord] = []
    grants: list[Grant] = []
    blocks: list[Block] = []
    buckets: list[Bucket] = []
    tokens: list[Token] = []
    dead_letters: list[DeadLetter] = []
    causes: list[Cause] = []
    sessions: list[Session] = []
    subscriptions: list[Subscription] = []
    wakes: list[Wake] = []
    deliveries: list[Delivery] = []
    cursors: list[Cursor] = []
    consumers: list[Consumer] = []
    waits: list[Wait] = []
    guests: list[tuple[str, str]] = []
    bridges: list[Bridge] = []
    proofs: list[Proof] = []
    activations: list[Activation] = []
    mandates: list[Mandate] = []
    dormancies: list[Dormancy] = []


class Changes:
    """Rows to write, by table.  Log entries and new messages are inserted, all others are put by their key."""

    __slots__ = (
        "activations",
        "blocks",
        "bridges",
        "buckets",
        "causes",
        "consumers",
        "cursors",
        "dead_letters",
        "deliveries",
        "delivery_steps",
        "dormancies",
        "glimpses",
        "grants",
        "idempotency",
        "log",
        "mandates",
        "members",
        "message_marks",
        "messages",
        "principals",
        "proofs",
        "receipts",
        "refusals",
        "sessions",
        "subscription_keys",
        "subscription_tails",
        "subscriptions",
        "thread_tails",
        "threads",
        "tokens",
        "waits",
        "wakes",
    )

    def __init__(self) -> None:
        self.log: list[LogEntry] = []
        self.messages: dict[str, Message] = {}
        self.message_marks: dict[str, Message] = {}
        self.receipts: dict[tuple[str, int, str], Receipt] = {}
        self.threads: dict[str, Thread] = {}
        self.thread_tails: dict[str, Thread] = {}  # only their end moved; never a thread that is in `threads` too
        self.members: dict[tuple[str, str], Member] = {}
        self.glimpses: dict[tuple[str, str, int], Glimpse] = {}
        self.principals: dict[str, Principal] = {}
        self.idempotency: dict[tuple[str, str, str], IdempotencyRecord] = {}
        self.grants: dict[tuple[str, str, str], Grant] = {}
        self.blocks: dict[tuple[str, str], Block] = {}
        self.buckets: dict[str, Bucket] = {}
        self.tokens: dict[str, Token] = {}
        self.refusals: dict[tuple[str, str, int], Refusal] = {}
        self.dead_letters: dict[str, DeadLetter] = {}
        self.causes: dict[tuple[str, str], Cause] = {}
        self.sessions: dict[str, Session] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.subscription_tails: dict[str, Subscription] = {}  # as with threads
        self.subscription_keys: dict[tuple[str, str, str], SubscriptionKey] = {}
        self.wakes: dict[tuple[str, int], Wake] = {}
        self.deliveries: dict[str, Delivery] = {}
        self.delivery_steps: dict[tuple[str, int], DeliveryStep] = {}
        self.cursors: dict[tuple[str, str, str], Cursor] = {}
        self.consumers: dict[str, Consumer] = {}
        self.waits: dict[str, Wait] = {}
        self.bridges: dict[str, Bridge] = {}
        self.proofs: dict[str, Proof] = {}
        self.activations: dict[str, Activation] = {}
        self.mandates: dict[str, Mandate] = {}
        self.dormancies: dict[str, Dormancy] = {}

    def __bool__(self) -> bool:
        return any(_tables(self))


_tables = attrgetter(*Changes.__slots__)

# The keys of rows.
_handle = attrgetter("handle")
_thread_id = attrgetter("thread_id")
_message_id = attrgetter("message_id")
_thread_id_seq_recipient = attrgetter("thread_id", "seq", "recipient")
_sender_operation_key = attrgetter("sender", "operation", "key")
_scope_grantee_owner = attrgetter("scope", "grantee", "owner")
_blocker_blocked = attrgetter("blocker", "blocked")
_sender = attrgetter("sender")
_jti = attrgetter("jti")
_dead_letter_id = attrgetter("dead_letter_id")
_handle_session_id = attrgetter("handle", "session_id")
_session_id = attrgetter("session_id")
_subscription_id = attrgetter("subscription_id")
_subscription_id_log_id = attrgetter("subscription_id", "log_id")
_delivery_id = attrgetter("delivery_id")
_consumer_id_stream_name_subject_id = attrgetter("consumer_id", "stream_name", "subject_id")
_name = attrgetter("name")
_host = attrgetter("host")
_route = attrgetter("route")
_activation_id = attrgetter("activation_id")


def _by(key: Callable[[R], Any], rows: list[R]) -> dict[Any, R]:
    """Most of what could be known is not asked for: nothing is the usual case."""
    return {key(row): row for row in rows} if rows else {}


class Picture:
    def __init__(self, facts: Facts) -> None:
        self.now = facts.now
        self.workspace = facts.workspace
        self.last_log_id = facts.workspace.last_log_id
        self.principals: dict[str, Principal] = _by(_handle, facts.principals)
        self.threads: dict[str, Thread] = _by(_thread_id, facts.threads)
        self.thread_by_key = {row.audience_key: row.thread_id for row in facts.threads if row.audience_key is not None}
        self.messages: dict[str, Message] = _by(_message_id, facts.messages)
        self.receipts: dict[tuple[str, int, str], Receipt] = _by(_thread_id_seq_recipient, facts.receipts)
        self.idempotency: dict[tuple[str, str, str], IdempotencyRecord] = _by(_sender_operation_key, facts.idempotency)
        self.grants: dict[tuple[str, str, str], Grant] = _by(_scope_grantee_owner, facts.grants)
        self.blocks: dict[tuple[str, str], Block] = _by(_blocker_blocked, facts.blocks)
        self.buckets: dict[str, Bucket] = _by(_sender, facts.buckets)
        self.tokens: dict[str, Token] = _by(_jti, facts.tokens)
        self.dead_letters: dict[str, DeadLetter] = _by(_dead_letter_id, facts.dead_letters)
        self.causes: dict[tuple[str, str], Cause] = _by(_handle_session_id, facts.causes)
        self.sessions: dict[str, Session] = _by(_session_id, facts.sessions)
        self.subscriptions: dict[str, Subscription] = _by(_subscription_id, facts.subscriptions)
        self.wakes: dict[tuple[str, int], Wake] = _by(_subscription_id_log_id, facts.wakes)
        self.deliveries: dict[str, Delivery] = _by(_delivery_id, facts.deliveries)
        self.cursors: dict[tuple[str, str, str], Cursor] = _by(_consumer_id_stream_name_subject_id, facts.cursors)
        self.consumers: dict[str, Consumer] = _by(_name, facts.consumers)
        self.waits: dict[str, Wait] = _by(_message_id, facts.waits)
        self.bridges: dict[str, Bridge] = _by(_host, facts.bridges)
        self.proofs: dict[str, Proof] = _by(_route, facts.proofs)
        self.activations: dict[str, Activation] = _by(_activation_id, facts.activations)
        self.mandates: dict[str, Mandate] = _by(_handle, facts.mandates)
        self.dormancies: dict[str, Dormancy] = _by(_handle, facts.dormancies)
        self.guests = set(facts.guests)
        self.members: dict[str, dict[str, Member]] = {}
        for member in facts.members:
            self.members.setdefault(member.thread_id, {})[member.handle] = member
        self.holders: dict[str, list[str]] = {}
        for role, handle in facts.role_holders:
            self.holders.setdefault(role, []).append(handle)
        self.changes = Changes()

    def learn(self, facts: Facts) -> None:
        """More facts, of what planning needs.  What is here already may have been changed, and stays."""
        self.principals = {**_by(_handle, facts.principals), **self.principals}
        self.buckets = {**_by(_sender, facts.buckets), **self.buckets}
        self.subscriptions = {**_by(_subscription_id, facts.subscriptions), **self.subscriptions}
        self.cursors = {**_by(_consumer_id_stream_name_subject_id, facts.cursors), **self.cursors}

    def inherit(self, before: Picture) -> None:
        """What was written just before is known too, without being loaded."""
        self.messages = {**before.messages, **self.messages}
        self.receipts = {**before.receipts, **self.receipts}
        self.threads = {**before.threads, **self.threads}
        self.members = {**before.members, **self.members}

    # -- questions ----------------------------------------------------------------------------------------------------

    def members_of(self, thread_id: str) -> list[str]:
        return [handle for handle, member in self.members.get(thread_id, {}).items() if member.left_at is None]

    def is_member(self, thread_id: str, handle: str) -> bool:
        member = self.members.get(thread_id, {}).get(handle)
        return member is not None and member.left_at is None

    def is_guest(self, thread_id: str, handle: str) -> bool:
        """Has something in this thread without being in it."""
        return (thread_id, handle) in self.guests

    def is_blocked(self, blocker: str, blocked: str) -> bool:
        block = self.blocks.get((blocker, blocked))
        return block is not None and block.lifted_at is None

    def is_granted(self, scope: str, grantee: str, owner: str) -> bool:
        grant = self.grants.get((scope, grantee, owner))
        return grant is not None and grant.revoked_at is None

    # -- changes ------------------------------------------------------------------------------------------------------

    def append(
        self,
        kind: str,
        stream: str,
        stream_seq: int,
        actor: str,
        subject: str | None,
        data: dict[str, Any] | None = None,
    ) -> int:
        self.last_log_id += 1
        encoded = None if data is None else _encode(data).decode()
        self.changes.log.append(
            LogEntry(
                self.workspace.workspace_id,
                self.last_log_id,
                kind,
                stream,
                stream_seq,
                actor,
                subject,
                encoded,
                self.now,
            )
        )
        return self.last_log_id

    def add_message(self, row: Message) -> None:
        self.messages[row.message_id] = self.changes.messages[row.message_id] = row

    def mark_message(self, row: Message) -> None:
        """Change what happened to a message after it was sent; its text never changes."""
        self.messages[row.message_id] = row
        if row.message_id in self.changes.messages:
            self.changes.messages[row.message_id] = msgspec.structs.replace(
                self.changes.messages[row.message_id],
                superseded_by=row.superseded_by,
                retracted_at=row.retracted_at,
                awaited=row.awaited,
            )
        else:
            self.changes.message_marks[row.message_id] = row

    def put_receipt(self, row: Receipt) -> None:
        key = (row.thread_id, row.seq, row.recipient)
        self.receipts[key] = self.changes.receipts[key] = row

    def put_thread(self, row: Thread) -> None:
        before = self.threads.get(row.thread_id)
        if before is not None and before.audience_key is not None and row.audience_key is None:
            self.thread_by_key.pop(before.audience_key, None)
        if row.audience_key is not None:
            self.thread_by_key[row.audience_key] = row.thread_id
        self.threads[row.thread_id] = self.changes.threads[row.thread_id] = row
        self.changes.thread_tails.pop(row.thread_id, None)

    def move_thread_tail(self, row: Thread) -> None:
        """Nothing changed that an index knows: the usual case, and a third of the cost of putting it whole."""
        whole = row.thread_id in self.changes.threads
        rows = self.changes.threads if whole else self.changes.thread_tails
        self.threads[row.thread_id] = rows[row.thread_id] = row

    def put_member(self, row: Member) -> None:
        self.members.setdefault(row.thread_id, {})[row.handle] = row
        self.changes.members[row.thread_id, row.handle] = row

    def put_glimpse(self, row: Glimpse) -> None:
        self.guests.add((row.thread_id, row.handle))
        self.changes.glimpses[row.thread_id, row.handle, row.last_seq] = row

    def put_principal(self, row: Principal) -> None:
        self.principals[row.handle] = self.changes.principals[row.handle] = row
        for holders in self.holders.values():
            if row.handle in holders:
                holders.remove(row.handle)
        for role in row.roles.split():
            self.holders.setdefault(role, []).append(row.handle)

    def put_idempotency(self, row: IdempotencyRecord) -> None:
        key = (row.sender, row.operation, row.key)
        self.idempotency[key] = self.changes.idempotency[key] = row

    def put_grant(self, row: Grant) -> None:
        key = (row.scope, row.grantee, row.owner)
        self.grants[key] = self.changes.grants[key] = row

    def put_block(self, row: Block) -> None:
        key = (row.blocker, row.blocked)
        self.blocks[key] = self.changes.blocks[key] = row

    def put_bucket(self, row: Bucket) -> None:
        self.buckets[row.sender] = self.changes.buckets[row.sender] = row

    def put_token(self, row: Token) -> None:
        self.tokens[row.jti] = self.changes.tokens[row.jti] = row

    def put_dead_letter(self, row: DeadLetter) -> None:
        self.dead_letters[row.dead_letter_id] = self.changes.dead_letters[row.dead_letter_id] = row

    def put_cause(self, row: Cause) -> None:
        key = (row.handle, row.session_id)
        self.causes[key] = self.changes.causes[key] = row

    def put_wait(self, row: Wait) -> None:
        self.waits[row.message_id] = self.changes.waits[row.message_id] = row

    def put_bridge(self, row: Bridge) -> None:
        self.bridges[row.host] = self.changes.bridges[row.host] = row

    def put_proof(self, row: Proof) -> None:
        self.proofs[row.route] = self.changes.proofs[row.route] = row

    def put_activation(self, row: Activation) -> None:
        self.activations[row.activation_id] = self.changes.activations[row.activation_id] = row

    def put_mandate(self, row: Mandate) -> None:
        self.mandates[row.handle] = self.changes.mandates[row.handle] = row

    def put_dormancy(self, row: Dormancy) -> None:
        self.dormancies[row.handle] = self.changes.dormancies[row.handle] = row

    def put_session(self, row: Session) -> None:
        self.sessions[row.session_id] = self.changes.sessions[row.session_id] = row

    def put_subscription(self, row: Subscription) -> None:
        self.subscriptions[row.subscription_id] = self.changes.subscriptions[row.subscription_id] = row
        self.changes.subscription_tails.pop(row.subscription_id, None)

    def move_subscription_tail(self, row: Subscription) -> None:
        """Nothing changed but what it counts and when it is looked at."""
        whole = row.subscription_id in self.changes.subscriptions
        rows = self.changes.subscriptions if whole else self.changes.subscription_tails
        self.subscriptions[row.subscription_id] = rows[row.subscription_id] = row

    def put_subscription_key(self, row: SubscriptionKey) -> None:
        self.changes.subscription_keys[row.subscription_id, row.trigger, row.key] = row

    def put_wake(self, row: Wake) -> None:
        key = (row.subscription_id, row.log_id)
        self.wakes[key] = self.changes.wakes[key] = row

    def put_delivery(self, row: Delivery) -> None:
        self.deliveries[row.delivery_id] = self.changes.deliveries[row.delivery_id] = row

    def add_delivery_step(self, row: DeliveryStep) -> None:
        self.changes.delivery_steps[row.delivery_id, row.number] = row

    def put_cursor(self, row: Cursor) -> None:
        key = (row.consumer_id, row.stream_name, row.subject_id)
        self.cursors[key] = self.changes.cursors[key] = row

    def put_consumer(self, row: Consumer) -> None:
        self.consumers[row.name] = self.changes.consumers[row.name] = row

    def count_refusal(self, handle: str, rule: str, message: str) -> None:
        minute = self.now // 60_000_000 * 60_000_000
        key = (handle, rule, minute)
        before = self.changes.refusals.get(key)
        count = 1 if before is None else before.count + 1
        self.changes.refusals[key] = Refusal(self.workspace.workspace_id, handle, rule, minute, count, message[:500])
