"""Every call of the HTTP face, described once: method, path, query and body.

The synchronous CLI and the asynchronous `wakeline.Client` both send what is made here, so neither knows a path of its
own.  The fields are those of `wakeline.wire`, without importing it: the CLI must start fast.  What is None is left out.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from wakeline.errors import WakelineError

# The words of the wire, for those who cannot afford to import its types.
KINDS = ("chat", "event", "system")
PRIORITIES = ("high", "normal", "low")
WAKE_POLICIES = ("silent", "next_turn", "immediate")
THREAD_TYPES = ("conversation", "workflow", "incident")
THREAD_STATUSES = ("active", "blocked", "resolved", "closed")
SCOPES = ("CAN_REPLY_TO", "CAN_READ_INBOX_OF", "CAN_READ_MEMORIES_OF")
OUTCOMES = ("delivered", "skipped", "failed", "unknown", "open")
PRESENCES = ("unknown", "idle", "active", "waitingOnApproval", "userTyping")
WAKE_MODES = ("socket", "file-watch", "native-push", "app-server", "piggyback", "none")
WAKE_TRIGGERS = ("SENT_TO_ME", "TASK_STATE_CHANGED", "PERMISSION_GRANTED", "HEARTBEAT_PULSE", "NOTICE_ASSIGNED")
HARNESS_TARGETS = ("mcp-notifications", "a2a-webhook", "bridge-daemon", "disabled", "none")
LONGEST_WAIT = 50
SHOWN_MAIL = 20  # so much unread mail is shown to who waits for it

ONCE = "once"  # a second sending could be a second effect, or be refused because of the first
SAFE = "safe"  # a second sending changes nothing and answers the same
KEYED = "keyed"  # safe as soon as it carries an idempotency key


class Clear:
    """The kind of `CLEAR`."""


CLEAR = Clear()  # where None means "leave it as it is", this takes it away

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~@")


class Call:
    """One request, not yet sent."""

    __slots__ = ("body", "method", "path", "query", "repeat")

    def __init__(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
        repeat: str = ONCE,
    ) -> None:
        self.method, self.path, self.query, self.body, self.repeat = method, path, query or {}, body, repeat

    @property
    def wait_seconds(self) -> float:
        """How long the server may take because it was asked to."""
        return float((self.body or self.query).get("wait_seconds") or 0)

    @property
    def target(self) -> str:
        """The path and the query as the request line has them."""
        if not self.query:
            return self.path
        return f"{self.path}?{'&'.join(f'{name}={quote(_word(value))}' for name, value in self.query.items())}"

    def with_fields(self, **fields: object) -> Call:
        """The same call with more in its body."""
        return Call(self.method, self.path, query=self.query, body={**(self.body or {}), **fields}, repeat=self.repeat)

    def with_key(self, key: str) -> Call:
        """The same call, safe to send again.  A key that is already there stays."""
        if self.repeat != KEYED or self.body is None:
            return self
        return Call(self.method, self.path, query=self.query, body={"idempotency_key": key, **self.body}, repeat=SAFE)


def quote(text: str) -> str:
    """Percent-encoding, as `urllib.parse.quote` with nothing safe, but without its imports."""
    data = text.encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in data)


def refusal(status: int, envelope: Mapping[str, Any]) -> WakelineError:
    """The error that an answer stands for, with the server's own words."""
    from wakeline import errors  # noqa: PLC0415 - only a refusal pays for it

    said = envelope["error"]
    kinds = {kind.status: kind for kind in errors.WakelineError.__subclasses__()}
    fallback = errors.InvalidArgument if status < errors.Internal.status else errors.Unavailable
    error = kinds.get(status, fallback)(str(said["code"]), str(said["message"]), str(said.get("hint") or ""))
    error.details = {**(said.get("details") or {}), "request_id": envelope.get("request_id")}
    return error


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _given(**fields: object) -> dict[str, Any]:
    return {name: None if value is CLEAR else value for name, value in fields.items() if value is not None}


def _read(path: str, **query: object) -> Call:
    return Call("GET", path, query=_given(**query), repeat=SAFE)


# -- messages ---------------------------------------------------------------------------------------------------------


def post_message(  # noqa: PLR0913 - the fields of a message
    body: str,
    *,
    to: Sequence[str] | str | None = None,
    thread_id: str | None = None,
    subject: str | None = None,
    kind: str | None = None,
    priority: str | None = None,
    wake_policy: str | None = None,
    tags: Sequence[str] | None = None,
    in_reply_to: str | None = None,
    idempotency_key: str | None = None,
    expires_at: datetime | str | None = None,
    answer_by: datetime | str | None = None,
    supersedes: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    session_id: str | None = None,
    wait_seconds: float | None = None,
) -> Call:
    """Post a message; with `wait_seconds`, also wait for the first reply to it."""
    fields = _given(
        body=body,
        to=to,
        thread_id=thread_id,
        subject=subject,
        kind=kind,
        priority=priority,
        wake_policy=wake_policy,
        tags=tags,
        in_reply_to=in_reply_to,
        idempotency_key=idempotency_key,
        expires_at=expires_at,
        answer_by=answer_by,
        supersedes=supersedes,
        metadata=metadata,
        session_id=session_id,
        wait_seconds=wait_seconds,
    )
    return Call("POST", "/v1/messages", body=fields, repeat=KEYED)


def get_message(message_id: str) -> Call:
    """Read one message with its receipts."""
    return _read(f"/v1/messages/{quote(message_id)}")


def retract_message(message_id: str, *, reason: str | None = None) -> Call:
    """Take a message back that nobody has read."""
    return Call("POST", f"/v1/messages/{quote(message_id)}/retract", body=_given(reason=reason), repeat=SAFE)


def get_inbox(
    *,
    limit: int | None = None,
    max_tokens: int | None = None,
    after: str | None = None,
    state: str | None = None,
    of: str | None = None,
) -> Call:
    """Read the inbox, unread mail unless `state` says otherwise."""
    return _read("/v1/inbox", limit=limit, max_tokens=max_tokens, after=after, state=state, of=of)


def wait_for_mail(*, after: str | None = None, wait_seconds: float | None = None) -> Call:
    """See what is unread after a position, and wait for it if there is nothing yet; leaves no trace."""
    return _read("/v1/inbox/wait", after=after, wait_seconds=wait_seconds)


def ack_messages(message_ids: Sequence[str]) -> Call:
    """Mark messages as read."""
    return Call("POST", "/v1/inbox/ack", body={"message_ids": message_ids}, repeat=SAFE)


def archive_messages(message_ids: Sequence[str]) -> Call:
    """Put messages away; they no longer count as unread."""
    return Call("POST", "/v1/inbox/archive", body={"message_ids": message_ids}, repeat=SAFE)


def search(q: str, *, thread_id: str | None = None, sender: str | None = None, limit: int | None = None) -> Call:
    """Find messages by their words."""
    return _read("/v1/search", q=q, thread_id=thread_id, sender=sender, limit=limit)


# -- threads ----------------------------------------------------------------------------------------------------------


def create_thread(
    title: str,
    *,
    type: str | None = None,  # noqa: A002 - the name on the wire
    members: Sequence[str] | None = None,
    coordinator: str | None = None,
    idempotency_key: str | None = None,
) -> Call:
    """Open a thread with these members."""
    fields = _given(title=title, type=type, members=members, coordinator=coordinator, idempotency_key=idempotency_key)
    return Call("POST", "/v1/threads", body=fields, repeat=KEYED)


def list_threads(
    *,
    status: str | None = None,
    type: str | None = None,  # noqa: A002 - the name on the wire
    limit: int | None = None,
    after: str | None = None,
) -> Call:
    """List the threads that the caller may see."""
    return _read("/v1/threads", status=status, type=type, limit=limit, after=after)


def get_thread(thread_id: str) -> Call:
    """Show one thread with its members."""
    return _read(f"/v1/threads/{quote(thread_id)}")


def add_members(thread_id: str, members: Sequence[str]) -> Call:
    """Add members to a thread."""
    return Call("POST", f"/v1/threads/{quote(thread_id)}/members", body={"members": members}, repeat=SAFE)


def remove_members(thread_id: str, members: Sequence[str]) -> Call:
    """Remove members from a thread."""
    return Call("DELETE", f"/v1/threads/{quote(thread_id)}/members", body={"members": members})


def change_status(
    thread_id: str,
    status: str,
    *,
    reason: str | None = None,
    escalation_owner: str | None = None,
    override: bool | None = None,
) -> Call:
    """Move a thread to another status."""
    fields = _given(status=status, reason=reason, escalation_owner=escalation_owner, override=override)
    return Call("POST", f"/v1/threads/{quote(thread_id)}/status", body=fields, repeat=SAFE)


def read_thread(
    thread_id: str, *, since_seq: int | None = None, limit: int | None = None, max_tokens: int | None = None
) -> Call:
    """Read the messages of a thread, in order."""
    return _read(f"/v1/threads/{quote(thread_id)}/messages", since_seq=since_seq, limit=limit, max_tokens=max_tokens)


def ack_thread(thread_id: str, last_read_seq: int) -> Call:
    """Mark a thread as read up to a message."""
    return Call("POST", f"/v1/threads/{quote(thread_id)}/ack", body={"last_read_seq": last_read_seq}, repeat=SAFE)


def summarize_thread(thread_id: str) -> Call:
    """Summarise a thread: who takes part, what is open, what was decided."""
    return _read(f"/v1/threads/{quote(thread_id)}/summary")


# -- sessions ---------------------------------------------------------------------------------------------------------


def heartbeat_session(  # noqa: PLR0913 - what a session may say of itself
    *,
    session_id: str | None = None,
    harness: str | None = None,
    native_id: str | Clear | None = None,
    host: str | Clear | None = None,
    cwd: str | Clear | None = None,
    pid: int | Clear | None = None,
    pid_started_at: datetime | str | Clear | None = None,
    wake_mode: str | None = None,
    replyable: bool | None = None,
    capabilities: Sequence[str] | None = None,
    levels: Mapping[str, str] | None = None,
    presence: str | None = None,
    active_turn_id: str | Clear | None = None,
    presence_source: str | None = None,
    context_tokens: int | Clear | None = None,
    context_limit: int | Clear | None = None,
    resumable: bool | None = None,
    task_id: str | Clear | None = None,
    branch: str | Clear | None = None,
) -> Call:
    """Say that a session is there and how it is, and hear of unread mail."""
    return Call("POST", "/v1/sessions/heartbeat", body=_given(**locals()), repeat=SAFE)


def end_session(session_id: str) -> Call:
    """Say that a session has ended."""
    return Call("POST", f"/v1/sessions/{quote(session_id)}/end", body={}, repeat=SAFE)


def list_sessions(*, handle: str | None = None, ended: bool | None = None, limit: int | None = None) -> Call:
    """List sessions, the caller's own unless it reads everything."""
    return _read("/v1/sessions", handle=handle, ended=ended, limit=limit)


def list_peers() -> Call:
    """Show who is there: each session of each principal, with its presence and unread mail."""
    return _read("/v1/peers")


# -- waking -----------------------------------------------------------------------------------------------------------


def subscribe_wake(
    trigger: str,
    *,
    filters: Mapping[str, Any] | None = None,
    harness_target: str | None = None,
    harness_target_metadata: Mapping[str, Any] | None = None,
    mcp_connected: bool | None = None,
) -> Call:
    """Be woken by what happens; the same route again is the same subscription."""
    fields = _given(
        trigger=trigger,
        filters=filters,
        harness_target=harness_target,
        harness_target_metadata=harness_target_metadata,
        mcp_connected=mcp_connected,
    )
    return Call("POST", "/v1/wake-subscriptions", body=fields, repeat=SAFE)


def list_wake_subscriptions(*, handle: str | None = None, after: str | None = None, limit: int | None = None) -> Call:
    """List wake subscriptions: one's own, and for a human everybody's."""
    return _read("/v1/wake-subscriptions", handle=handle, after=after, limit=limit)


def get_wake_subscription(subscription_id: str) -> Call:
    """Show one wake subscription."""
    return _read(f"/v1/wake-subscriptions/{quote(subscription_id)}")


def update_wake_subscription(
    subscription_id: str,
    *,
    trigger: str | None = None,
    filters: Mapping[str, Any] | None = None,
    harness_target: str | None = None,
    harness_target_metadata: Mapping[str, Any] | None = None,
) -> Call:
    """Change what wakes, or by which route."""
    fields = _given(
        trigger=trigger,
        filters=filters,
        harness_target=harness_target,
        harness_target_metadata=harness_target_metadata,
    )
    return Call("PATCH", f"/v1/wake-subscriptions/{quote(subscription_id)}", body=fields, repeat=SAFE)


def unsubscribe_wake(subscription_id: str) -> Call:
    """Remove a wake subscription."""
    return Call("DELETE", f"/v1/wake-subscriptions/{quote(subscription_id)}", repeat=SAFE)


def resume_wake_subscription(subscription_id: str) -> Call:
    """Try a degraded route again."""
    return Call("POST", f"/v1/wake-subscriptions/{quote(subscription_id)}/resume", repeat=SAFE)


def rotate_wake_key(subscription_id: str) -> Call:
    """Make a new signing key; the old one signs beside it for a while."""
    return Call("POST", f"/v1/wake-subscriptions/{quote(subscription_id)}/rotate-key")


def manage_wake_subscription(action: str, **arguments: Any) -> Call:
    """Do any of it through the wake protocol's one call, with its camelCase arguments."""
    return Call("POST", "/v1/manage-wake-subscription", body={"action": action, **arguments})


# -- identity and policy ----------------------------------------------------------------------------------------------


def list_agents() -> Call:
    """List the agents and humans of the workspace."""
    return _read("/v1/agents")


def add_agent(
    handle: str,
    *,
    roles: Sequence[str] | None = None,
    kind: str | None = None,
    display_name: str | None = None,
    token: bool | None = None,
    token_seconds: int | None = None,
    idempotency_key: str | None = None,
) -> Call:
    """Add an agent or a human, with a first token."""
    fields = _given(
        handle=handle,
        roles=roles,
        kind=kind,
        display_name=display_name,
        token=token,
        token_seconds=token_seconds,
        idempotency_key=idempotency_key,
    )
    return Call("POST", "/v1/agents", body=fields, repeat=KEYED)


def change_agent(
    handle: str,
    *,
    roles: Sequence[str] | None = None,
    display_name: str | None = None,
    retired: bool | None = None,
    quiet_hours: Mapping[str, str] | Clear | None = None,
    do_not_disturb_until: datetime | str | Clear | None = None,
) -> Call:
    """Change an agent's roles or name, when to leave it alone, or retire it."""
    fields = _given(
        roles=roles,
        display_name=display_name,
        retired=retired,
        quiet_hours=quiet_hours,
        do_not_disturb_until=do_not_disturb_until,
    )
    return Call("PATCH", f"/v1/agents/{quote(handle)}", body=fields, repeat=SAFE)


def create_token(
    handle: str,
    *,
    role: str | None = None,
    seconds: int | None = None,
    session_id: str | None = None,
    note: str | None = None,
    idempotency_key: str | None = None,
) -> Call:
    """Make a token for an agent or a human."""
    fields = _given(
        handle=handle,
        role=role,
        seconds=seconds,
        session_id=session_id,
        note=note,
        idempotency_key=idempotency_key,
    )
    return Call("POST", "/v1/tokens", body=fields, repeat=KEYED)


def list_tokens(*, handle: str | None = None) -> Call:
    """List tokens, never their secret part."""
    return _read("/v1/tokens", handle=handle)


def revoke_token(jti: str) -> Call:
    """Revoke a token."""
    return Call("DELETE", f"/v1/tokens/{quote(jti)}", repeat=SAFE)


def put_grant(scope: str, grantee: str, owner: str) -> Call:
    """Allow `grantee` something about `owner`."""
    return Call("POST", "/v1/grants", body={"scope": scope, "grantee": grantee, "owner": owner}, repeat=SAFE)


def remove_grant(scope: str, grantee: str, owner: str) -> Call:
    """Take a grant away."""
    return Call("DELETE", "/v1/grants", body={"scope": scope, "grantee": grantee, "owner": owner})


def list_grants() -> Call:
    """List the grants."""
    return _read("/v1/grants")


def put_block(blocked: str, *, blocker: str | None = None) -> Call:
    """Stop somebody's mail to `blocker`, by default the caller."""
    return Call("POST", "/v1/blocks", body=_given(blocked=blocked, blocker=blocker), repeat=SAFE)


def remove_block(blocked: str, *, blocker: str | None = None) -> Call:
    """Lift a block."""
    return Call("DELETE", "/v1/blocks", body=_given(blocked=blocked, blocker=blocker))


def list_blocks() -> Call:
    """List the blocks."""
    return _read("/v1/blocks")


def list_refusals() -> Call:
    """List what policy has refused, counted per principal, rule and minute."""
    return _read("/v1/refusals")


def whoami() -> Call:
    """Say who the caller is to the server."""
    return _read("/v1/whoami")


# -- operations -------------------------------------------------------------------------------------------------------


def read_log(*, after: str | None = None, limit: int | None = None) -> Call:
    """Read the log after a position."""
    return _read("/v1/log", after=after, limit=limit)


def stream_events(*, after: str | None = None) -> Call:
    """Open the stream of events after a position."""
    return _read("/v1/events", after=after)


def stream_wakes() -> Call:
    """Open the stream of wakes: hints for this principal's connections, never the mail itself."""
    return _read("/v1/wakes")


def list_dead_letters(*, sender: str | None = None, open: bool | None = None, limit: int | None = None) -> Call:  # noqa: A002 - the name on the wire
    """List what could not be brought to anybody."""
    return _read("/v1/dead-letters", sender=sender, open=open, limit=limit)


def redrive(dead_letter_id: str) -> Call:
    """Post a dead letter again."""
    return Call("POST", f"/v1/dead-letters/{quote(dead_letter_id)}/redrive")


def list_deliveries(
    *,
    handle: str | None = None,
    subscription_id: str | None = None,
    outcome: str | None = None,
    before: str | None = None,
    limit: int | None = None,
) -> Call:
    """List wakes that were brought out, newest first."""
    return _read(
        "/v1/deliveries", handle=handle, subscription_id=subscription_id, outcome=outcome, before=before, limit=limit
    )


def get_delivery(delivery_id: str) -> Call:
    """Show a delivery with each of its steps."""
    return _read(f"/v1/deliveries/{quote(delivery_id)}")


def retry_delivery(delivery_id: str) -> Call:
    """Send again what did not arrive."""
    return Call("POST", f"/v1/deliveries/{quote(delivery_id)}/retry")


def resync(subscription_id: str, since_log_id: int, *, epoch: str | None = None) -> Call:
    """Replay what is unread since a log id."""
    path = f"/v1/wake-subscriptions/{quote(subscription_id)}/resync"
    return Call("POST", path, body=_given(since_log_id=since_log_id, epoch=epoch))


def list_workspaces() -> Call:
    """List the workspaces."""
    return _read("/v1/workspaces")


def add_workspace(name: str) -> Call:
    """Add a workspace."""
    return Call("POST", "/v1/workspaces", body={"name": name})


def prune(*, older_than_seconds: int | None = None, keep: int | None = None) -> Call:
    """Remove old log rows now."""
    return Call("POST", "/v1/prune", body=_given(older_than_seconds=older_than_seconds, keep=keep), repeat=SAFE)


def get_status() -> Call:
    """Show counts and positions."""
    return _read("/v1/status")


def get_readiness() -> Call:
    """Ask whether the server can serve."""
    return _read("/readyz")
