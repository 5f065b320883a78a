"""Introduce: the session in which a process works that was started for an agent, as its harness names it.

A harness without a terminal has nobody at the bridge who would register its session.  Without a row the next mail would
begin another one; with it, that one is resumed.  While its process runs there is no way into it, and when the process
has ended so has the session, until it is continued.  Where a companion speaks for the session, it knows better.
"""

from __future__ import annotations

import msgspec

from wakeline.core.activation import Activation
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import SYSTEM
from wakeline.core.session import Presence, Session, WakeMode
from wakeline.flow.attend import Attention, finish_session, identity, instance_id, report, unheard

_replace = msgspec.structs.replace

SOURCE = "activation"


class Introduction(msgspec.Struct, frozen=True):
    """What a harness said of its session, on the host of the bridge that heard it."""

    workspace_id: int
    handle: str
    host: str
    harness: str
    native_id: str
    cwd: str | None
    attention: Attention
    new_id: str
    found: str | None = None  # the session that goes by this native id, if the reader found one

    @property
    def by_native_id(self) -> str:
        return instance_id(self.workspace_id, self.handle, self.harness, self.native_id, self.host)

    def needs(self, needs: Needs) -> None:
        needs.sessions.update({self.found or "", self.by_native_id})


def introduce(picture: Picture, row: Activation, said: Introduction) -> Session:
    before = _recognised(picture, said)
    if before is not None and _speaks(before, row):
        after = _known(before, said)
    else:
        after = _running(_known(before or _new(picture, said), said), row, picture.now)
    if after != before:
        picture.put_session(after)
        report(picture, SYSTEM, before, after, said.attention)
    return after


def part(picture: Picture, row: Activation, said: Introduction) -> Session:
    """Its process is gone.  Somebody who has opened it since comes back by their next word."""
    session = introduce(picture, row, said)
    return session if session.ended_at is not None else finish_session(picture, SYSTEM, session, SOURCE)


def _recognised(picture: Picture, said: Introduction) -> Session | None:
    known = (said.harness, said.native_id, said.host)
    for session_id in (said.found, said.by_native_id):
        session = picture.sessions.get(session_id or "")
        if session is not None and session.handle == said.handle and identity(session) == known:
            return session
    return None


def _new(picture: Picture, said: Introduction) -> Session:
    free = said.new_id if said.by_native_id in picture.sessions else said.by_native_id
    session = unheard(free, said.workspace_id, said.handle, said.harness, picture.now)
    return _replace(session, native_id=said.native_id, host=said.host)


def _known(session: Session, said: Introduction) -> Session:
    return _replace(session, resumable=1, cwd=session.cwd or said.cwd)


def _running(session: Session, row: Activation, now: int) -> Session:
    return _replace(
        session,
        pid=row.pid,
        pid_started_at=row.pid_started_at,
        wake_mode=WakeMode.NONE,  # whatever led into it before: nothing leads into a run without a terminal
        transport=None,
        capabilities="[]",
        levels="{}",
        said_levels="{}",
        presence=Presence.ACTIVE,
        presence_source=SOURCE,
        presence_at=now,
        active_turn_id=None,
        heartbeat_at=now,
        ended_at=None,
    )


def _speaks(session: Session, row: Activation) -> bool:
    """Has it shown life by itself since?  When the attempt was planned, nothing was heard of the agent."""
    return session.pid != row.pid and session.heartbeat_at > row.created_at
