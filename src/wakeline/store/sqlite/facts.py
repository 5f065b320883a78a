"""Load what a batch must know: one small statement for each kind of fact that is asked for.

Each statement returns its rows as one JSON array, in one step.  A step gives up and takes back the interpreter's lock
once, so a row at a time would mean one round of waiting per row while the event loop is busy; and msgspec turns the
array into rows faster than the driver could hand them over.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

import apsw
import msgspec

from wakeline.core.log import Workspace
from wakeline.core.message import Message, Receipt
from wakeline.core.picture import Facts, Needs
from wakeline.core.principal import Principal
from wakeline.core.records import Block, Bucket, DeadLetter, Grant, IdempotencyRecord, Token
from wakeline.core.thread import Member, Thread
from wakeline.errors import NotFound
from wakeline.store import statements

R = TypeVar("R")

_encode = msgspec.json.Encoder().encode
_messages = msgspec.json.Decoder(list[Message])
_threads = msgspec.json.Decoder(list[Thread])
_members = msgspec.json.Decoder(list[Member])
_holders = msgspec.json.Decoder(list[tuple[str, str]])
_principals = msgspec.json.Decoder(list[Principal])
_receipts = msgspec.json.Decoder(list[Receipt])
_idempotency = msgspec.json.Decoder(list[IdempotencyRecord])
_grants = msgspec.json.Decoder(list[Grant])
_blocks = msgspec.json.Decoder(list[Block])
_buckets = msgspec.json.Decoder(list[Bucket])
_tokens = msgspec.json.Decoder(list[Token])
_dead_letters = msgspec.json.Decoder(list[DeadLetter])


class Loader:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def load(self, workspace_id: int, needs: Needs, now: int) -> Facts:
        found: list[Any] = self._execute("workspace", workspace_id, None).fetchall()
        if not found:
            raise NotFound("WORKSPACE_NOT_FOUND", f"There is no workspace {workspace_id}.")
        workspace = Workspace(*found[0])
        messages = self._rows(_messages, "messages", workspace_id, _message_ids(needs))
        threads = self._threads(workspace_id, needs, messages)
        holders = self._rows(_holders, "role_holders", workspace_id, needs.roles)
        senders = needs.senders
        return Facts(
            now=now,
            workspace=workspace,
            principals=self._principals(workspace_id, needs, holders),
            role_holders=holders,
            threads=threads,
            members=self._rows(_members, "members", workspace_id, {row.thread_id for row in threads}),
            messages=messages,
            receipts=[
                *self._rows(_receipts, "receipts", workspace_id, needs.receipts),
                *self._rows(_receipts, "all_receipts", workspace_id, needs.receipts_of),
                *self._rows(_receipts, "unread_receipts", workspace_id, needs.unread_until),
            ],
            idempotency=self._rows(_idempotency, "idempotency", workspace_id, needs.idempotency),
            grants=self._rows(_grants, "grants", workspace_id, senders),
            blocks=self._rows(_blocks, "blocks", workspace_id, senders),
            buckets=self._rows(_buckets, "buckets", workspace_id, senders),
            tokens=self._rows(_tokens, "tokens", workspace_id, needs.tokens),
            dead_letters=self._rows(_dead_letters, "dead_letters", workspace_id, needs.dead_letters),
        )

    def _threads(self, workspace_id: int, needs: Needs, messages: list[Message]) -> list[Thread]:
        asked = needs.threads | {row.thread_id for row in messages}
        found = [
            *self._rows(_threads, "threads", workspace_id, asked),
            *self._rows(_threads, "standing_threads", workspace_id, needs.audience_keys),
            *self._rows(_threads, "workflows", workspace_id, needs.workflows_of),
        ]
        return list({row.thread_id: row for row in found}.values())

    def _principals(self, workspace_id: int, needs: Needs, holders: list[tuple[str, str]]) -> list[Principal]:
        if needs.everyone:
            return self._rows(_principals, "everyone", workspace_id, needs.handles or {""})
        return self._rows(_principals, "principals", workspace_id, needs.handles | {handle for _, handle in holders})

    def _rows(
        self, decoder: msgspec.json.Decoder[list[R]], kind: str, workspace_id: int, keys: Collection[Any]
    ) -> list[R]:
        if not keys:
            return []
        document: Any = self._execute(kind, workspace_id, _encode(keys).decode()).fetchall()[0][0]
        return decoder.decode(document)

    def _execute(self, kind: str, workspace_id: int, keys: str | None) -> apsw.Cursor:
        statement = statements.load("sqlite", f"facts_{kind}")
        given = {"workspace_id": workspace_id, "keys": keys}
        return self._connection.execute(statement.text, tuple(given[name] for name in statement.parameters))


def _message_ids(needs: Needs) -> set[str]:
    return needs.messages | needs.receipts_of | {message_id for message_id, _ in needs.receipts}
