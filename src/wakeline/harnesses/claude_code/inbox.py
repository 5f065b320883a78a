"""The session's inbox socket, since Claude Code 2.1.224: newline JSON that starts a turn in an idle session.

- `priority` is `next`, always.  `now` would cut a turn off and dismiss an open permission dialog.
- `session_id` is a guard: after /clear the socket is the same, the conversation is not.
- There is no receipt for success.  What goes wrong comes back to the socket that `from` names, in the same folder.  The
  same text twice running within 30 s is dropped as a duplicate, whatever its id: then the first one is there.
- A message from a process below the session is taken in every permission mode; from outside, bypass mode holds it back.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from wakeline.harnesses.claude_code.bell import ACCEPTED, Verdict
from wakeline.wire.seat import LINE_BYTES
from wakeline.wire.sessions import WakeMode

_log = logging.getLogger(__name__)

OBJECTION_SECONDS = 0.6  # receipts are gathered for a third of a second

_encode = msgspec.json.Encoder().encode


class Receipt(msgspec.Struct, frozen=True):
    action: str = ""
    status: str | None = None
    status_detail: str | None = None
    drop_reason: str | None = None
    msg_id: str | None = None
    orig_msg_id: str | None = None
    dropped_msg_ids: list[str] = []

    @property
    def subjects(self) -> set[str]:
        return {one for one in (self.msg_id, self.orig_msg_id, *self.dropped_msg_ids) if one}


_decode = msgspec.json.Decoder(Receipt).decode


def verdict(receipt: Receipt) -> Verdict:
    if receipt.drop_reason == "duplicate":
        return Verdict("accepted", detail="it was there already")
    if receipt.drop_reason is not None:
        return Verdict("failed", receipt.drop_reason.replace("-", "_"), "Claude Code dropped it")
    if receipt.status == "expired":
        return Verdict("refused", "refused_by_human", receipt.status_detail)
    if receipt.status == "held":
        return Verdict("unknown", "held_for_human", "Claude Code asks its human first")
    return Verdict("unknown", receipt.status or "receipt", receipt.status_detail)


class Inbox:
    transport = "inbox-socket"
    wake_mode: WakeMode = "socket"

    def __init__(self, path: Path, token: str | None, new_id: Callable[[], str]) -> None:
        self._path, self._token, self._new_id = path, token, new_id
        self._back = path.parent / f"wakeline-{os.getpid()}.sock"
        self._waiting: dict[str, asyncio.Future[Receipt]] = {}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Listen for receipts."""
        self._back.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._receive, self._back, limit=LINE_BYTES)
        self._back.chmod(0o600)
        try:
            yield
        finally:
            server.close()
            self._back.unlink(missing_ok=True)

    async def ring(self, text: str, native_id: str) -> Verdict:
        message_id = self._new_id()
        objection: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._waiting[message_id] = objection
        try:
            await self._write(self._frame(message_id, text, native_id))
            done, _ = await asyncio.wait([objection], timeout=OBJECTION_SECONDS)
            return verdict(objection.result()) if done else ACCEPTED
        except OSError as error:
            return Verdict("failed", "inbox_unreachable", str(error))
        finally:
            del self._waiting[message_id]

    def _frame(self, message_id: str, text: str, native_id: str) -> bytes:
        frame: dict[str, Any] = {
            "type": "user",
            "msgV": 1,
            "msg_id": message_id,
            "session_id": native_id,
            "from": f"uds:{self._back}",
            "priority": "next",
            "message": {"role": "user", "content": text},
        }
        proof = [] if self._token is None else [{"type": "auth", "token": self._token}]
        return b"".join(_encode(one) + b"\n" for one in (*proof, frame))

    async def _write(self, frame: bytes) -> None:
        _, writer = await asyncio.open_unix_connection(self._path)
        writer.write(frame)
        try:
            await writer.drain()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                with suppress(msgspec.MsgspecError):
                    self._note(_decode(line))
        except (OSError, ValueError):
            _log.debug("a receipt broke off")
        finally:
            writer.close()

    def _note(self, receipt: Receipt) -> None:
        if receipt.action != "peer_message_status":
            return
        for subject in receipt.subjects & self._waiting.keys():
            if not self._waiting[subject].done():
                self._waiting[subject].set_result(receipt)
