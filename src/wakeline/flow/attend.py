"""Sessions come, show life and end.

Heartbeats are frequent, so a beat that says nothing new changes only the session's row; the log hears of a session when
it starts and ends, and when its presence, its levels or the verdict on its context change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from wakeline import wire
from wakeline.core import policy
from wakeline.core.ids import ulid
from wakeline.core.instant import from_datetime
from wakeline.core.level import admitted, proven, route_of
from wakeline.core.log import PRINCIPAL_STREAM
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import Caller
from wakeline.core.session import REPEATED, Presence, Session, WakeMode, exceeds_context, presence_of
from wakeline.errors import Forbidden, InvalidArgument, NotFound

_replace = msgspec.structs.replace
_encode = msgspec.json.Encoder(order="deterministic").encode
_levels = msgspec.json.Decoder(dict[str, str]).decode

HEARTBEAT = "heartbeat"  # the source of a presence whose session does not say how it knows
Way = tuple[str, str, str]  # harness, transport and version; empty: not said

# Said and stored in the same shape.
_PLAIN = (
    "harness",
    "harness_version",
    "transport",
    "native_id",
    "host",
    "cwd",
    "pid",
    "wake_mode",
    "active_turn_id",
    "presence_source",
    "context_tokens",
    "context_limit",
    "task_id",
    "branch",
)


class Attention(msgspec.Struct, frozen=True):
    """What counts as news: how long a presence is believed, and how much context is too much."""

    stale_after: int = 300_000_000
    context_limit: int = 250_000


class Heartbeat(msgspec.Struct, frozen=True):
    caller: Caller
    said: wire.HeartbeatSession
    new_id: str
    attention: Attention
    found: str | None = None  # the session that has this native id, if the reader found one
    known: Way = ("", "", "")  # how that session was reached so far, as far as this beat needs it

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    @property
    def named(self) -> str | None:
        """The session that the credentials or the request name; a token of one session speaks for no other."""
        if self.caller.session_id is not None:
            return self.caller.session_id
        return None if isinstance(self.said.session_id, UnsetType) else self.said.session_id

    @property
    def by_native_id(self) -> str:
        """The same harness instance gets the same id, also from two first beats at once on two nodes."""
        return instance_id(self.workspace_id, self.caller.handle, *identity(self.said))

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.sessions.update({self.named} if self.named is not None else {self.found or "", self.by_native_id})
        if all(self._way):
            needs.proofs.add(route_of(*self._way))

    def decide(self, picture: Picture) -> Session:
        policy.admit(picture, self.caller)
        before = self._known(picture)
        after = _spoken(before or self._new(picture), self.said, picture.now)
        if tells_of_levels(self.said):
            after = _replace(after, levels=self._admitted(picture, before, after))
        picture.put_session(after)
        report(picture, self.caller.handle, before, after, self.attention)
        return after

    def _admitted(self, picture: Picture, before: Session | None, after: Session) -> str:
        """What our own probe of the way to it found, else what we ship.

        Somebody else may just have said more of it than the reader knew; then no proof was looked up for its way, and
        what they were told stays, if it is the same way.
        """
        way = way_of(after)
        stored = picture.proofs.get(route_of(*way))
        if way != self._way:
            known = _levels(before.levels) if before is not None and way == way_of(before) else {}
        else:
            known = dict(proven(*way)) if stored is None else _levels(stored.levels)
        return _encode(admitted(known, _levels(after.said_levels))).decode()

    @property
    def _way(self) -> Way:
        """How the session is reached from this beat on."""
        said = (self.said.harness, self.said.transport, self.said.harness_version)
        harness, transport, version = (
            before if isinstance(now, UnsetType) else now or "" for now, before in zip(said, self.known, strict=True)
        )
        return harness, transport, version

    # -- which session ------------------------------------------------------------------------------------------------

    def _known(self, picture: Picture) -> Session | None:
        if self.named is None:
            return self._recognised(picture)
        session = picture.sessions.get(self.named)
        is_own = session is not None and session.handle == self.caller.handle
        if not is_own and (session is not None or self.named != self.caller.session_id):
            raise not_found(self.named, self.caller.handle)
        return session

    def _recognised(self, picture: Picture) -> Session | None:
        for session_id in (self.found, self.by_native_id):
            session = picture.sessions.get(session_id or "")
            if session is not None and identity(session) == identity(self.said):
                return session
        return None

    def _new(self, picture: Picture) -> Session:
        if isinstance(self.said.harness, UnsetType):
            raise InvalidArgument(
                "INVALID_ARGUMENT", "This session is not registered yet.", "Say at least its 'harness'."
            )
        # An id that is taken belongs to an instance that goes by another native id since.
        free = self.new_id if self.by_native_id in picture.sessions else self.by_native_id
        who = (self.workspace_id, self.caller.handle, self.said.harness)
        return unheard(self.named or free, *who, picture.now)


def instance_id(workspace_id: int, handle: str, harness: str, native_id: str, host: str) -> str:
    words = (str(workspace_id), handle, harness, native_id, host)
    number = int.from_bytes(hashlib.sha256("\0".join(words).encode()).digest())
    return ulid(number >> 80, number)


def unheard(session_id: str, workspace_id: int, handle: str, harness: str, now: int) -> Session:
    """A session before its first word."""
    return Session(
        session_id=session_id,
        workspace_id=workspace_id,
        handle=handle,
        harness=harness,
        native_id=None,
        host=None,
        cwd=None,
        pid=None,
        pid_started_at=None,
        wake_mode=WakeMode.NONE,
        replyable=1,
        capabilities="[]",
        levels="{}",
        presence=Presence.UNKNOWN,
        active_turn_id=None,
        presence_source=HEARTBEAT,
        presence_at=now,
        context_tokens=None,
        context_limit=None,
        resumable=0,
        task_id=None,
        branch=None,
        started_at=now,
        heartbeat_at=now,
    )


# -- what the log hears -----------------------------------------------------------------------------------------------


def report(picture: Picture, actor: str, before: Session | None, after: Session, attention: Attention) -> None:
    if before is None or before.ended_at is not None:
        data = {"harness": after.harness, "host": after.host, "resumed": before is not None}
        _append(picture, actor, "session.started", after, {**_change(None, after.presence), **data})
        return
    was, now = (presence_of(one, picture.now, attention.stale_after) for one in (before, after))
    news: dict[str, Any] = {}
    if before.levels != after.levels:
        news["levels"] = msgspec.json.decode(after.levels)
    if exceeds_context(before, attention.context_limit) != exceeds_context(after, attention.context_limit):
        news["exceeds_context"] = exceeds_context(after, attention.context_limit)
    if news or was != now:
        _append(picture, actor, "session.changed", after, {**_change(was, now), **news})


def finish_session(picture: Picture, actor: str, before: Session, reason: str | None = None) -> Session:
    ended = _replace(
        before, presence=Presence.UNKNOWN, active_turn_id=None, presence_at=picture.now, ended_at=picture.now
    )
    picture.put_session(ended)
    why = {} if reason is None else {"reason": reason}
    _append(picture, actor, "session.ended", ended, {**_change(before.presence, ended.presence), **why})
    return ended


class EndSession(msgspec.Struct, frozen=True):
    caller: Caller
    session_id: str

    @property
    def workspace_id(self) -> int:
        return self.caller.workspace_id

    def needs(self, needs: Needs) -> None:
        needs.handles.add(self.caller.handle)
        needs.sessions.add(self.session_id)

    def decide(self, picture: Picture) -> Session:
        policy.admit(picture, self.caller)
        before = picture.sessions.get(self.session_id)
        if before is None or not (before.handle == self.caller.handle or self.caller.is_human):
            raise not_found(self.session_id, self.caller.handle)
        if before.ended_at is not None:
            return before
        return finish_session(picture, self.caller.handle, before)


def not_found(session_id: str, handle: str, hint: str | None = None) -> NotFound:
    return NotFound("SESSION_NOT_FOUND", f"{handle} has no session {session_id}.", hint, session_id=session_id)


# -- sessions that post and are posted to -----------------------------------------------------------------------------


def check_claim(picture: Picture, caller: Caller, session_id: str | None) -> None:
    """Does the caller speak for the session that it names?  What a token says was checked with the token."""
    if session_id is None or session_id == caller.session_id:
        return
    session = picture.sessions.get(session_id)
    if session is None or session.handle != caller.handle:
        raise Forbidden(
            "CLAIM_MISMATCH",
            "'session_id' is not a session of the caller.",
            "Name a session that you have registered, or leave the field out.",
            rule="claims",
            field="session_id",
        )


def check_addressed(picture: Picture, sessions: Iterable[tuple[str, str]]) -> None:
    """A session that is not there, or will not come back, cannot be addressed."""
    for handle, session_id in sessions:
        session = picture.sessions.get(session_id)
        if session is None or session.handle != handle:
            raise not_found(session_id, handle, f"Write to {handle}; GET /v1/peers shows which sessions it has.")
        if session.ended_at is not None and not session.resumable:
            raise NotFound(
                "SESSION_NOT_FOUND",
                f"The session {session_id} of {handle} has ended.",
                f"Write to {handle}; GET /v1/peers shows which sessions it has.",
                session_id=session_id,
            )


def note_acting(picture: Picture, thread_id: str, handle: str, session_id: str | None) -> None:
    """Remember which of a member's sessions last acted in a thread: that one is woken for what comes there."""
    member = picture.members.get(thread_id, {}).get(handle)
    if member is not None and session_id is not None and member.session_id != session_id:
        picture.put_member(_replace(member, session_id=session_id))


def _spoken(session: Session, said: wire.HeartbeatSession, now: int) -> Session:
    """The session with what it says now; what it does not mention stays."""
    changes: dict[str, Any] = {"heartbeat_at": now, "ended_at": None}
    for name in _PLAIN:
        changes[name] = getattr(said, name)
    if said.replyable is not UNSET:
        changes["replyable"] = int(said.replyable)
    if said.resumable is not UNSET:
        changes["resumable"] = int(said.resumable)
    if said.capabilities is not UNSET:
        changes["capabilities"] = _encode(said.capabilities).decode()
    if said.levels is not UNSET:
        changes["said_levels"] = _encode(said.levels).decode()
    if not isinstance(said.pid_started_at, UnsetType):
        at = said.pid_started_at
        changes["pid_started_at"] = None if at is None else from_datetime(at.astimezone(UTC))
    if said.presence is not UNSET:
        changes |= {"presence": said.presence, "presence_at": now}
        if said.presence_source is UNSET and session.presence_source == REPEATED:
            changes["presence_source"] = HEARTBEAT  # its own word again
        if said.active_turn_id is UNSET and said.presence != session.presence:
            changes["active_turn_id"] = None  # that turn is over
    return _replace(session, **{name: value for name, value in changes.items() if value is not UNSET})


def way_of(session: Session) -> Way:
    return session.harness, session.transport or "", session.harness_version or ""


def tells_of_levels(said: wire.HeartbeatSession) -> bool:
    """Does it say how it is reached, or what it can do by that?  Most beats do not."""
    return any(word is not UNSET for word in (said.harness, said.transport, said.harness_version, said.levels))


def identity(one: Session | wire.HeartbeatSession) -> tuple[str, str, str]:
    """What a harness instance is recognised by, together with its agent."""
    return one.harness or "", one.native_id or "", one.host or ""


def _change(was: str | None, now: str) -> dict[str, Any]:
    return {"presence": {"from": was, "to": now}}


def _append(picture: Picture, actor: str, kind: str, session: Session, data: dict[str, Any]) -> None:
    picture.append(kind, PRINCIPAL_STREAM + session.handle, 0, actor, session.session_id, data)
