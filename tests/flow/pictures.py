"""A small world to decide over, without a store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec

from wakeline.core.batch import decide_all
from wakeline.core.guardrail import Guardrails
from wakeline.core.ids import ulid
from wakeline.core.log import Workspace
from wakeline.core.message import SCHEMA_VERSION, Message, parse_audience
from wakeline.core.picture import Facts, Picture
from wakeline.core.principal import COORDINATOR, HUMAN_ROLE, PARTICIPANT, Caller, Kind, Principal
from wakeline.core.store import Command
from wakeline.flow.once import payload_hash
from wakeline.flow.post import Post

NOW = 1_800_000_000_000_000
ROLES = {"@alice": "participant", "@bob": "participant reviewer", "@carol": "participant", "@lead": "coordinator"}

ALICE, BOB, CAROL = (Caller(1, "default", handle, Kind.AGENT, PARTICIPANT) for handle in ("@alice", "@bob", "@carol"))
LEAD = Caller(1, "default", "@lead", Kind.AGENT, COORDINATOR)
HUMAN = Caller(1, "default", "@human", Kind.HUMAN, HUMAN_ROLE, operator=True)

_numbers = count(1)


def new_id() -> str:
    return ulid(next(_numbers), 0)


def picture(**facts: Any) -> Picture:
    principals = [Principal(1, handle, Kind.AGENT, roles, None, 0, "@human") for handle, roles in ROLES.items()]
    principals.append(Principal(1, "@human", Kind.HUMAN, "human", None, 0, "@system"))
    given = {
        "principals": principals,
        "role_holders": [
            ("human", "@human"),
            *((role, handle) for handle, roles in ROLES.items() for role in roles.split()),
        ],
    }
    return Picture(Facts(NOW, Workspace(1, "default", "e", 0, 100, 1, 0), **{**given, **facts}))


def decide(world: Picture, *commands: Command[Any]) -> list[Any]:
    """The answers of one batch; a refusal stands as its code."""
    return [getattr(answer, "code", answer) for answer in decide_all(commands, world)]


def post(
    caller: Caller, *to: str, thread_id: str | None = None, rails: Guardrails | None = None, **fields: Any
) -> Post:
    message = Message(
        message_id=new_id(), workspace_id=1, thread_id="", seq=0, log_id=0, sender=caller.handle, session_id=None,
        kind="chat", subject=None, body="hello", recipients="[]", priority="normal", wake_policy="", tags="[]",
        in_reply_to=None, idempotency_key=None, expires_at=None, supersedes=None, metadata=None,
        schema_version=SCHEMA_VERSION, created_at=0,
    )  # fmt: skip
    message = msgspec.structs.replace(message, **fields)
    return Post(
        caller=caller,
        message=message,
        audience=parse_audience(list(to), caller.handle) if to else None,
        thread_id=thread_id,
        wake_policy=None,
        tags=[],
        digest=payload_hash([*to, message.body]),
        rails=rails or Guardrails(),
    )


def unread(world: Picture, handle: str) -> list[tuple[str, int]]:
    """(thread, seq) of what lies unread."""
    return sorted((row.thread_id, row.seq) for row in _receipts(world) if row.recipient == handle and row.box == 0)


def _receipts(world: Picture) -> Sequence[Any]:
    return list(world.receipts.values())
