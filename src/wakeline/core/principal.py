"""Who acts: agents, humans and the system, their handles and roles, and the verified caller of one request."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NewType

import msgspec

from wakeline.errors import InvalidArgument
from wakeline.wire.common import HANDLE_PATTERN, ROLE_PATTERN

Handle = NewType("Handle", str)
WorkspaceId = NewType("WorkspaceId", int)

RESERVED = frozenset({"@me", "@system", "@everyone"})
SYSTEM = Handle("@system")

PARTICIPANT = "participant"
COORDINATOR = "coordinator"
AUDITOR = "auditor"
HUMAN_ROLE = "human"

_handle = re.compile(HANDLE_PATTERN)
_role = re.compile(ROLE_PATTERN)


class Kind(StrEnum):
    AGENT = "agent"
    HUMAN = "human"
    SYSTEM = "system"


AGENT, HUMAN = Kind.AGENT, Kind.HUMAN  # for those who look with every post: to look into an enumeration takes longer


class Principal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    workspace_id: int
    handle: str
    kind: str
    roles: str
    display_name: str | None
    created_at: int
    created_by: str
    retired_at: int | None = None
    quiet: str | None = None  # JSON: daily hours without wakes, in a time zone
    dnd_until: int | None = None  # do not disturb until then
    pulsed_at: int | None = None  # when the watchdog last looked after it

    def holds(self, role: str) -> bool:
        return role in self.roles.split()


class Caller(msgspec.Struct, frozen=True):
    """The verified sender of one request: what the credentials say, never what the payload says."""

    workspace_id: int
    workspace: str
    handle: str
    kind: str
    role: str
    jti: str | None = None
    session_id: str | None = None
    expires_at: int | None = None
    operator: bool = False
    kid: str | None = None  # the outside issuer's key that vouches for it
    host: str | None = None  # a bridge: it acts for the sessions of this host and may do nothing else

    @property
    def is_human(self) -> bool:
        return self.kind == HUMAN

    @property
    def reads_everything(self) -> bool:
        return self.kind == HUMAN or self.role in (COORDINATOR, AUDITOR)

    @property
    def manages_threads(self) -> bool:
        return self.kind == HUMAN or self.role == COORDINATOR


def parse_handle(text: str) -> Handle:
    """A handle as it may be named or created.  Reserved words are handles of nobody."""
    if not _handle.match(text):
        raise InvalidArgument(
            "INVALID_ARGUMENT",
            f"{text[:80]!r} is not a handle.",
            "A handle is '@' and up to 63 of a-z, 0-9, '.', '_' and '-', starting with a letter or digit.",
        )
    return Handle(text)


def parse_new_handle(text: str) -> Handle:
    handle = parse_handle(text)
    if handle in RESERVED:
        raise InvalidArgument("INVALID_ARGUMENT", f"{handle} is a reserved word.", "Choose another handle.")
    return handle


def parse_role(text: str) -> str:
    if not _role.match(text):
        raise InvalidArgument(
            "INVALID_ARGUMENT",
            f"{text[:80]!r} is not a role.",
            "A role is one lower-case word: a-z first, then a-z, 0-9, '_' and '-'.",
        )
    return text
