"""What the shapes share: the three kinds of shape, and the words with a pattern or a limit."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

# "$" alone lets a newline follow, in Python but not in JSON Schema; "$(?!\n)" means the end in both.
HANDLE_PATTERN = r"^@[a-z0-9][a-z0-9._-]{0,62}$(?!\n)"
NO_NUL = r"^[^\u0000]*$"
ROLE_PATTERN = r"^[a-z][a-z0-9_-]{0,62}$(?!\n)"

Handle = Annotated[str, Meta(pattern=HANDLE_PATTERN, examples=["@alice"])]
Role = Annotated[str, Meta(pattern=ROLE_PATTERN, examples=["reviewer"])]
Id = Annotated[str, Meta(pattern=r"^[0-9A-Za-z]{26}$(?!\n)", examples=["01JD3Z8Q0W4T6N9X2C5V7B1M3K"])]
TokenId = Annotated[str, Meta(pattern=r"^[0-9A-Za-z._~:=+-]{1,200}$(?!\n)")]
Session = Annotated[str, Meta(pattern=r"^[^\u0000]{1,200}$(?!\n)")]
# What a registered session may be called: it stands in paths and in addresses.
SESSION_ID_PATTERN = r"^[0-9A-Za-z][0-9A-Za-z._:~-]{0,199}$(?!\n)"
SessionId = Annotated[str, Meta(pattern=SESSION_ID_PATTERN, examples=["01JD3Z8Q0W4T6N9X2C5V7B1M3K"])]
# A handle or one session of it, a role, or everyone.
DIRECT_PATTERN = r"^@[a-z0-9][a-z0-9._-]{0,62}(/[0-9A-Za-z][0-9A-Za-z._:~-]{0,199})?$(?!\n)"
Address = Annotated[
    str,
    Meta(
        pattern=rf"({DIRECT_PATTERN})|^(role:[a-z][a-z0-9_-]{{0,62}}|everyone)$(?!\n)",
        examples=["@bob", "@bob/01JD3Z8Q0W4T6N9X2C5V7B1M3K", "role:reviewer", "everyone"],
    ),
]
Key = Annotated[str, Meta(min_length=1, max_length=200)]
Tag = Annotated[str, Meta(min_length=1, max_length=64)]
Tags = Annotated[list[Tag], Meta(max_length=32)]
Reason = Annotated[str, Meta(min_length=1, max_length=2000)]
Seq = Annotated[int, Meta(ge=0, le=2**53)]
Limit = Annotated[int, Meta(ge=1, le=500)]
# Described, but checked where a wrong one has an error of its own.
LogPosition = Annotated[
    str, Meta(max_length=64, extra_json_schema={"pattern": r"^(0|[a-z0-9]{1,32}-[0-9]{1,18})$", "examples": ["0"]})
]
Epoch = Annotated[str, Meta(pattern=r"^[a-z0-9]{1,32}$(?!\n)")]
InboxPage = Annotated[str, Meta(max_length=64, extra_json_schema={"pattern": r"^[0-3]\.[0-2]\.[0-9]{1,18}$"})]
# An instant in an answer, and one in a request.
Instant = Annotated[datetime, Meta(tz=True)]
Moment = Annotated[
    datetime,
    Meta(
        tz=True,
        extra_json_schema={
            "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$",
            "examples": ["2999-12-31T23:59:59Z"],
        },
    ),
]
Tokens = Annotated[int, Meta(ge=1, le=10_000_000)]

MessageKind = Literal["chat", "event", "system"]
Priority = Literal["high", "normal", "low"]
WakePolicy = Literal["silent", "next_turn", "immediate"]
ThreadType = Literal["conversation", "workflow", "incident"]
ThreadStatus = Literal["active", "blocked", "resolved", "closed"]
Scope = Literal["CAN_REPLY_TO", "CAN_READ_INBOX_OF", "CAN_READ_MEMORIES_OF"]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request body.  Claims may be repeated in it, but only truthfully."""

    agent_id: str | UnsetType = UNSET
    workspace_id: str | UnsetType = UNSET


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query string of one operation."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a call answers."""
