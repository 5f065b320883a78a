"""Escalate to the human: open an incident that lies in every human's inbox and wakes."""

from __future__ import annotations

from typing import Any

import msgspec

from wakeline.core.ids import derived
from wakeline.core.log import THREAD_STREAM
from wakeline.core.message import SCHEMA_VERSION, Message, MessageKind, Priority, WakePolicy
from wakeline.core.picture import Needs, Picture
from wakeline.core.principal import HUMAN_ROLE, SYSTEM, Kind
from wakeline.core.thread import Status, Thread, ThreadType
from wakeline.flow import belong, entry

_encode = msgspec.json.Encoder().encode


def needs(wanted: Needs) -> None:
    """Humans are the holders of their role, so they are found by a key and are as few as the people."""
    wanted.roles.add(HUMAN_ROLE)


def humans(picture: Picture, first: str) -> list[str]:
    """Every human who is there, the one that the settings name first."""
    found = [picture.principals[handle] for handle in picture.holders.get(HUMAN_ROLE, ())]
    present = {one.handle for one in found if one.kind == Kind.HUMAN and one.retired_at is None}
    return sorted(present, key=lambda handle: (handle != first, handle))


def incident(picture: Picture, source: str, title: str, body: str, to: list[str], metadata: dict[str, Any]) -> str:
    """Open a thread with these humans.  Its id follows from `source`, so that deciding again opens the same one."""
    now = picture.now
    thread_id = derived(source, "incident")
    thread = Thread(
        thread_id, picture.workspace.workspace_id, ThreadType.INCIDENT, Status.ACTIVE, title, None, SYSTEM, None, None,
        0, now, now,
    )  # fmt: skip
    picture.put_thread(thread)
    belong.join(picture, thread, to)
    data = {"type": thread.type, "title": title, "members": to}
    picture.append("thread.created", THREAD_STREAM + thread_id, 0, SYSTEM, thread_id, data)
    entry.write(picture, thread, _message(thread, derived(source, "message"), body, to, metadata), to)
    return thread_id


def _message(thread: Thread, message_id: str, body: str, to: list[str], metadata: dict[str, Any]) -> Message:
    return Message(
        message_id=message_id,
        workspace_id=thread.workspace_id,
        thread_id=thread.thread_id,
        seq=0,
        log_id=0,
        sender=SYSTEM,
        session_id=None,
        kind=MessageKind.EVENT,
        subject=thread.title,
        body=body,
        recipients=_encode(to).decode(),
        priority=Priority.HIGH,
        wake_policy=WakePolicy.IMMEDIATE,
        tags="[]",
        in_reply_to=None,
        idempotency_key=None,
        expires_at=None,
        supersedes=None,
        metadata=_encode(metadata).decode(),
        schema_version=SCHEMA_VERSION,
        created_at=0,
    )
