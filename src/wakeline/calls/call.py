"""One request, not yet sent, and the words of the wire that its fields may hold."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
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
        return f"{self.path}?{'&'.join(f'{name}={quote(word(value))}' for name, value in self.query.items())}"

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


def word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def given(**fields: object) -> dict[str, Any]:
    return {name: None if value is CLEAR else value for name, value in fields.items() if value is not None}


def read(path: str, **query: object) -> Call:
    return Call("GET", path, query=given(**query), repeat=SAFE)
