from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from wakeline.harnesses.claude_code.bell import ACCEPTED, Verdict
from wakeline.harnesses.claude_code.inbox import Inbox

Answer = Callable[[dict[str, Any]], dict[str, Any] | None]


@asynccontextmanager
async def session(folder: Path, answer: Answer) -> AsyncIterator[tuple[Inbox, list[dict[str, Any]]]]:
    """A socket as a session has one: it keeps what comes, and sends a receipt to who is named as the sender."""
    frames: list[dict[str, Any]] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            frame = json.loads(line)
            frames.append(frame)
            receipt = answer(frame) if frame["type"] == "user" else None
            if receipt is not None:
                _, back = await asyncio.open_unix_connection(frame["from"].removeprefix("uds:"))
                back.write(json.dumps({"type": "control", "action": "peer_message_status", **receipt}).encode() + b"\n")
                back.close()
        writer.close()

    numbers = itertools.count(1)
    server = await asyncio.start_unix_server(receive, folder / "session.sock")
    inbox = Inbox(folder / "session.sock", "secret", lambda: f"m{next(numbers)}")
    async with server, inbox.open():
        yield inbox, frames


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("i")


RECEIPTS = [
    ("silence is consent", None, ACCEPTED),
    ("the first is there already", {"status": "dropped", "drop_reason": "duplicate"}, ACCEPTED),
    ("too many", {"status": "dropped", "drop_reason": "rate-limited"}, Verdict("failed", "rate_limited")),
    ("no room", {"status": "dropped", "drop_reason": "queue-full"}, Verdict("failed", "queue_full")),
    ("the human is asked first", {"status": "held"}, Verdict("unknown", "held_for_human")),
    ("the human said no", {"status": "expired", "status_detail": "refused"}, Verdict("refused", "refused_by_human")),
    ("a word of a newer version", {"status": "pondered"}, Verdict("unknown", "pondered")),
]


@pytest.mark.parametrize(("why", "receipt", "expected"), RECEIPTS, ids=[row[0] for row in RECEIPTS])
async def test_what_a_receipt_means(folder: Path, why: str, receipt: Any, expected: Verdict) -> None:
    def answer(frame: dict[str, Any]) -> dict[str, Any] | None:
        return None if receipt is None else {**receipt, "dropped_msg_ids": [frame["msg_id"]]}

    async with session(folder, answer) as (inbox, _):
        came = await inbox.ring("there is mail", "one")
    assert (came.result, came.reason) == (expected.result, expected.reason)


async def test_a_doorbell_never_interrupts_and_names_its_session(folder: Path) -> None:
    async with session(folder, lambda _: None) as (inbox, frames):
        await inbox.ring("there is mail", "one")
        await inbox.ring("there is more", "two")
    sent = [frame for frame in frames if frame["type"] == "user"]
    assert [frame["session_id"] for frame in sent] == ["one", "two"]
    assert {frame["priority"] for frame in sent} == {"next"}
    assert len({frame["msg_id"] for frame in sent}) == 2


async def test_anothers_receipt_is_not_ours(folder: Path) -> None:
    async with session(folder, lambda _: {"status": "held", "msg_id": "another"}) as (inbox, _):
        assert await inbox.ring("there is mail", "one") == ACCEPTED


async def test_a_session_that_is_gone_is_a_failure_and_leaves_no_socket(folder: Path) -> None:
    inbox = Inbox(folder / "nobody.sock", None, lambda: "m")
    async with inbox.open():
        came = await inbox.ring("there is mail", "one")
    assert (came.result, came.reason) == ("failed", "inbox_unreachable")
    assert list(folder.glob("wakeline-*")) == []
