"""Who is in a role's standing thread: whoever holds the role now, from the moment they get it until they lose it.

A role's thread is the holders' own place.  Somebody from outside may write to the role and be answered there without
coming in, and who loses the role is out; both keep what they sent and what was sent to them.  So that such a reader
finds their few messages without walking through all others, the stretches that hold them are noted as glimpses: one
message each for who was never in, the time of their membership for who was.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from wakeline.core.picture import Picture
from wakeline.core.principal import Principal
from wakeline.core.thread import Glimpse, Member, Thread

_replace = msgspec.structs.replace


def join(picture: Picture, thread: Thread, handles: Iterable[str]) -> list[str]:
    """Make these handles members; those who are members already stay as they are."""
    joined = []
    for handle in handles:
        before = picture.members.get(thread.thread_id, {}).get(handle)
        if before is not None and before.left_at is None:
            continue
        read = 0 if before is None else before.last_read_seq
        picture.put_member(
            Member(thread.thread_id, handle, thread.workspace_id, picture.now, thread.last_seq + 1, read)
        )
        joined.append(handle)
    return joined


def follow_roles(picture: Picture, principal: Principal) -> None:
    """Bring a principal that has changed into the threads of what it holds, and out of the others."""
    for thread in list(picture.threads.values()):
        if thread.role is None:
            continue
        if principal.retired_at is None and principal.holds(thread.role):
            join(picture, thread, [principal.handle])
        elif picture.is_member(thread.thread_id, principal.handle):
            _leave(picture, thread, principal.handle)


def _leave(picture: Picture, thread: Thread, handle: str) -> None:
    member = picture.members[thread.thread_id][handle]
    picture.put_member(_replace(member, left_at=picture.now))
    if member.joined_seq <= thread.last_seq:
        stretch = Glimpse(thread.thread_id, handle, thread.workspace_id, member.joined_seq, thread.last_seq)
        picture.put_glimpse(stretch)


def note_guests(picture: Picture, thread: Thread, seq: int, handles: Iterable[str]) -> None:
    """Of those who sent or got this message, remember who is not in the thread."""
    for handle in handles:
        if not picture.is_member(thread.thread_id, handle):
            picture.put_glimpse(Glimpse(thread.thread_id, handle, thread.workspace_id, seq, seq))
